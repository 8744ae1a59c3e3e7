"""Bytes in, bytes out: messages, header fields, MIME parts. It knows nothing about spam."""
