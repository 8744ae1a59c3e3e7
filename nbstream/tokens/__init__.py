"""Turns a message into tokens: what it says, where it links to, how it travelled and how it is built."""

TOKENIZER_VERSION = 5
"""Stored with a model: the counts of one version say little about the tokens of another version.

The native library is built with this file: a library for other tokens is refused.
"""

MAX_TOKENS = 100_000
"""The most tokens of a message that a store takes."""
