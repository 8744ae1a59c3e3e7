"""What strangers can do to a filter: mail that is written to teach it, or to hide from it."""
