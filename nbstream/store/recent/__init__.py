"""What is remembered of the messages that were checked last: their tokens, and why they got their verdict."""
