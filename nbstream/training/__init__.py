"""Training from mailboxes: finds accounts and folders, chooses messages, and shows the choice as a plan."""
