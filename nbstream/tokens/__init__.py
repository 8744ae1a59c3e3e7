"""From a message to tokens: what it says, where it links to, how it travelled and how it is built."""

MODEL_FORMAT = 1
"""Stored with a model, which has no other version: a model of another format is refused.

It grows whenever other tokens are made of a message, and whenever keys, stored forms or their meaning change. The
native library is built with this file: a library for other tokens is refused.
"""

MAX_TOKENS = 100_000
"""The most tokens of a message that a store takes."""
