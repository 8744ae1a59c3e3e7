"""How mail leaves: the next hops, a Maildir or an SMTP server."""
