"""Turns a message into tokens: what it says, where it links to, how it travelled and how it is built."""

TOKENIZER_VERSION = 5
"""Stored with a model: the counts of one version say little about the tokens of another version."""

MAX_TOKENS = 100_000
"""The most that ``TokenizerOptions.max_tokens`` may be in the settings: a store refuses a message of more."""
