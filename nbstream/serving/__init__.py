"""Kept for supervisors of nbstream 0.1, which start their workers by the name ``nbstream.serving.worker``."""
