#!/usr/bin/perl
# Answers one line for each line of its input with SpamAssassin's Bayes alone, in one process.
#
# Input: "ham PATH" or "spam PATH" (learn; the answer is "learned"), or "check PATH" (the answer is the probability,
# or "none" where it says nothing). No rules, no network and no other plugin are loaded; it answers from the first
# message, and not from 200 of each class. The one argument is an empty folder for the database.
use strict;
use warnings;
use Mail::SpamAssassin;

my $folder = shift @ARGV;
$| = 1;
my $assassin = Mail::SpamAssassin->new({
    dont_copy_prefs => 1, local_tests_only => 1, userprefs_filename => "$folder/none",
    config_text => <<"END",
loadplugin Mail::SpamAssassin::Plugin::Bayes
util_rb_tld com net org
use_bayes 1
bayes_auto_learn 0
bayes_auto_expire 0
bayes_learn_to_journal 0
bayes_min_ham_num 1
bayes_min_spam_num 1
bayes_path $folder/bayes
END
});
$assassin->init(1);
$assassin->init_learner({ force_expire => 0, learn_to_journal => 0, wait_for_lock => 1, caller_will_untie => 1 });
my $bayes = $assassin->call_plugins("learner_get_implementation");
while (my $line = <STDIN>) {
    chomp $line;
    my ($what, $path) = split / /, $line, 2;
    open(my $file, '<', $path) or die "$path: $!";
    my $mail = $assassin->parse([<$file>], 1);
    close $file;
    if ($what eq 'check') {
        my $status = Mail::SpamAssassin::PerMsgStatus->new($assassin, $mail);
        $status->extract_message_metadata();
        my $p = $bayes->scan($status, $mail);
        print defined $p ? $p : 'none', "\n";
        $status->finish();
    } else {
        $assassin->learn($mail, undef, $what eq 'spam' ? 1 : 0, 0)->finish();
        print "learned\n";
    }
    $mail->finish();
}
$assassin->finish_learner();
