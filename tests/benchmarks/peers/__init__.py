"""Other filters in the inbox regime."""
