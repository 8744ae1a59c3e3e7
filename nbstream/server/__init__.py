"""What every listener shares: sockets, limits, who may teach, decisions, and the message service."""
