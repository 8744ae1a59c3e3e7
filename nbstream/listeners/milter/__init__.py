"""The milter listener: a mail server asks about each message while it takes it, and edits the header itself."""
