# A message that a user took out of Junk is ham, unless it went to Trash, or to another folder for junk. The address is
# feedback.ham_address. The one before it is where nbstream takes mail, listeners.smtp.listen, and the one
# behind it the mail user: only the program needs these two.
require ["copy", "environment", "imapsieve", "special-use", "variables", "vnd.dovecot.pipe"];

if environment :matches "imap.mailbox" "*" {
    set "target" "${1}";
}

if environment :matches "imap.user" "*" {
    set "user" "${1}";
}

# By name, for folders inside of them as well, or by what Dovecot's configuration says they are (special_use).
if anyof (
    string :matches "${target}" ["Junk*", "Trash*"],
    specialuse_exists "${target}" "\\Junk",
    specialuse_exists "${target}" "\\Trash"
) {
    stop;
}

pipe :copy "nbstream-report" ["127.0.0.1:10025", "ham@nbstream.invalid", "${user}"];
