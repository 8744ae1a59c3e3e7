"""``nbstream demo``: a daemon for a look around, with made-up mail, which leaves nothing behind."""
