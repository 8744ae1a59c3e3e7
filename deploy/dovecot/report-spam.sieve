# A message that a user put into Junk is spam. The address is feedback.spam_address. The one before it is where
# nbstream takes mail, listeners.smtp.listen, and the one behind it the mail user: only the program needs these two, and
# not nbstream's socket.
require ["copy", "environment", "imapsieve", "variables", "vnd.dovecot.pipe"];

if environment :matches "imap.user" "*" {
    set "user" "${1}";
}

# Without :copy Dovecot would take the message for delivered elsewhere, and mark the one in Junk as deleted.
pipe :copy "nbstream-report" ["127.0.0.1:10025", "spam@nbstream.invalid", "${user}"];
