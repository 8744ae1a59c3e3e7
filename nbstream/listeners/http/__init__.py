"""The HTTP listener: its own API, the API of rspamd, and the metrics."""
