"""Messages in the folders of an IMAP server."""
