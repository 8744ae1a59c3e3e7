# The Bayes probability of SpamAssassin alone: reads a path a line, and answers each with a number; 0.5 where there is none.
# Arguments: the path of the database, a folder to work in, and the file of top-level domains that came with the program.
use strict;
use warnings;
use Mail::SpamAssassin;

my ($database, $home, $domains) = @ARGV;
open(my $list, "<", $domains) or die "$domains: $!";
my $filter = Mail::SpamAssassin->new({
    config_text => join("\n", <$list>, "loadplugin Mail::SpamAssassin::Plugin::Check", "loadplugin Mail::SpamAssassin::Plugin::Bayes",
        "use_bayes 1", "bayes_path $database", "bayes_auto_learn 0", "bayes_auto_expire 0", "skip_rbl_checks 1",
        "dns_available no",
        "bayes_min_ham_num 1", "bayes_min_spam_num 1", "body BAYES_ANY eval:check_bayes('0.00', '1.00')", "score BAYES_ANY 0.1", "tflags BAYES_ANY learn"),
    userstate_dir => $home, home_dir_for_helpers => $home, local_tests_only => 1, dont_copy_prefs => 1,
});
$filter->init(1);
$| = 1;
while (my $path = <STDIN>) {
    chomp $path;
    open(my $file, "<:raw", $path) or die "$path: $!";
    my $mail = $filter->parse(do { local $/; <$file> }, 0);
    my $status = $filter->check($mail);
    print $status->{bayes_score} // 0.5, "\n";
    $status->finish();
    $mail->finish();
}
