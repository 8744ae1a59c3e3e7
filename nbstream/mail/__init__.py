"""Bytes in, bytes out: messages, header fields, MIME parts. Knows nothing of spam."""
