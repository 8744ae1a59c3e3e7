"""The client side of IMAP, with limits in time and in bytes."""
