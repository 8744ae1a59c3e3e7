"""What listeners share: sockets, limits, who may teach, decisions, HTTP, and the message service."""
