"""Stored values of some kilobytes that want to become much larger when they are read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from nbstream.store.compression import compress
from nbstream.tokens import MAX_TOKENS

MANY_BYTES = 256 << 20
_ALLOWED_BYTES = MANY_BYTES // 4

MANY_TOKENS = b"\n".join([b"a"] * (MAX_TOKENS + 1))


def many_bytes() -> bytes:
    """Many bytes, compressed."""
    return compress(bytes(MANY_BYTES))


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail where the block takes more than a quarter of what a bomb wants."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < _ALLOWED_BYTES
    finally:
        tracemalloc.stop()
