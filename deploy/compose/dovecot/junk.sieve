# What nbstream calls spam is filed in Junk when it is delivered.
require ["fileinto", "mailbox"];
if header :is "X-Spam-Flag" "YES" {
    fileinto :create "Junk";
    stop;
}
