"""What a site's mailboxes teach: find accounts and folders, choose messages, and say in a plan what was chosen."""
