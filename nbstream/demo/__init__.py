"""``nbstream demo``: a daemon in a temporary folder, with made-up mail."""
