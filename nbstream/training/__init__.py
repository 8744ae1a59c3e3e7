"""What a site's mailboxes teach: find accounts and folders, choose letters, and say in a plan what was chosen."""
