"""The API of rspamd, for its clients: a guest of the HTTP listener, which serves its routes."""
