# Runs before each user's own script. What is delivered has the verdict in its header.
require ["fileinto", "mailbox", "vnd.dovecot.filter"];

filter "nbstream-filter";
if header :is "X-Spam-Flag" "YES" {
    fileinto :create "Junk";
    stop;
}
