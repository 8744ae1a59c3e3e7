# SpamAssassin in one process: reads "check PATH", "spam PATH" and "ham PATH" line by line, and answers each with a line:
# of a check "spam" or "ham", of a lesson "learned". Arguments: the folder of the rules, that of the site, one to work in.
use strict;
use warnings;
use Mail::SpamAssassin;

my ($rules, $site, $home) = @ARGV;
my $filter = Mail::SpamAssassin->new({
    rules_filename       => $rules,
    site_rules_filename  => $site,
    userprefs_filename   => "/dev/null",
    userstate_dir        => $home,
    home_dir_for_helpers => $home,
    local_tests_only     => 1,
    dont_copy_prefs      => 1,
});
$filter->init(1);
$| = 1;
while (my $line = <STDIN>) {
    chomp $line;
    my ($command, $path) = split / /, $line, 2;
    open(my $file, "<:raw", $path) or die "$path: $!";
    my $mail = $filter->parse(do { local $/; <$file> }, 0);
    if ($command eq "check") {
        my $status = $filter->check($mail);
        print $status->is_spam() ? "spam\n" : "ham\n";
        $status->finish();
    } else {
        $filter->init_learner({ wait_for_lock => 1 });
        my $lesson = $filter->learn($mail, undef, $command eq "spam" ? 1 : 0, 0);
        $lesson->finish();
        print "learned\n";
    }
    $mail->finish();
}
