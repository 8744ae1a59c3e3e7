"""The listener for the clients of SpamAssassin's spamd."""
