"""Turns a message into tokens: what it says, where it links to, how it travelled and how it is built."""

TOKENIZER_VERSION = 5
"""Stored with a model: the counts of one version say little about the tokens of another version.

The native library is built with this file: a library for other tokens is refused.
"""

FORMER_TOKENIZERS: tuple[str, ...] = ()
"""The older tokenizers whose models can be migrated, because most of their tokens are made today too.

A ledger entry keeps the very tokens that were learned, so what an older version learned can still be unlearned
exactly. The tokenizer of 0.7.0 is the oldest one that was published, and it is that of this version.
"""

MAX_TOKENS = 100_000
"""The most tokens of a message that a store takes."""
