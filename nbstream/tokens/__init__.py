"""Turns a message into tokens: what it says, where it links to, how it travelled and how it is built."""

TOKENIZER_VERSION = 5
"""Stored with a model: the counts of one version say little about the tokens of another version."""
