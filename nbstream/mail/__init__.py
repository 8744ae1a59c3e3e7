"""Bytes in, bytes out: messages, header fields, MIME parts. This package knows nothing about spam."""
