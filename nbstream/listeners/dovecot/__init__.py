"""The listener for Dovecot's Sieve scripts: what people move to Junk, and out of it, is learned from a spool."""
