"""Tokens as they are stored: compressed by Zstandard with a trained dictionary.

Rules: the dictionary is a part of the stored form: with another one, what is in Redis cannot be read. A later
dictionary therefore gets another identifier, which each compressed value names, and this one stays.

``python -m tools.dictionary`` has trained the dictionary, on mail that was made up for it.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import zstandard

if TYPE_CHECKING:
    from collections.abc import Sequence


DICTIONARY_ID = 32_769
"""The identifier of the dictionary; those below 32,768 are reserved by RFC 8878, 5."""

DICTIONARY_FILE = f"tokens_{DICTIONARY_ID}.dictionary"
"""The file of the dictionary, beside this module."""

ZSTD_LEVEL = 1
"""The level of compression. At level 3 messages of two corpora are smaller by 6 %, and take 1.4 times as long."""

MAX_UNPACKED_BYTES = 8 << 20
"""The most that is decompressed: ``MAX_TOKENS`` of ``MAX_TOKEN_BYTES``, and what is stored of a check beside them.

2,000 tokens are some 50 kB, but some kilobytes in Redis or in an archive may decompress to gigabytes.
"""

MAX_NAMES_BYTES = 2 * MAX_UNPACKED_BYTES
"""The most that the names of a change are decompressed to: it may take back an entry and add another one."""


class _ZstdContexts(threading.local):
    """A compressor and a decompressor for each thread: two threads cannot use the same one at once."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, dict_data=_dictionary())
        self.decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(), max_window_size=MAX_NAMES_BYTES)


@cache
def _dictionary() -> zstandard.ZstdCompressionDict:
    """Return the dictionary, prepared for compression once."""
    dictionary = zstandard.ZstdCompressionDict(files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
    dictionary.precompute_compress(level=ZSTD_LEVEL)
    return dictionary


@cache
def _zstd() -> _ZstdContexts:
    return _ZstdContexts()


def compress(content: bytes) -> bytes:
    """Return ``content``, compressed by Zstandard."""
    return _zstd().compressor.compress(content)


COMPRESSES_AT_ONCE = "multi_compress_to_buffer" in zstandard.backend_features
"""Whether ``compress_at_once`` works: it does not where the library was built with the system's Zstandard."""


def compress_at_once(contents: Sequence[bytes]) -> list[bytes]:
    """Return each of ``contents`` as ``compress`` does, by one call, in which other threads can run."""
    frames = _zstd().compressor.multi_compress_to_buffer([*contents])
    return [frames[i].tobytes() for i in range(len(frames))]


def decompress_first(packed: bytes, max_bytes: int = MAX_UNPACKED_BYTES) -> tuple[bytes, bytes]:
    """Return the content that ``packed`` begins with, and the bytes that follow it.

    Raises ``ValueError`` for what ``compress`` did not return, and for more than ``max_bytes`` of content.
    """
    try:
        frame = zstandard.get_frame_parameters(packed)
        if frame.content_size > max_bytes or frame.dict_id != DICTIONARY_ID:  # an unknown size is the largest
            raise ValueError("too large, or compressed with another dictionary")
        decompressor = _zstd().decompressor.decompressobj()
        content = decompressor.decompress(packed)
    except zstandard.ZstdError as error:
        raise ValueError("damaged") from error
    if not decompressor.eof:
        raise ValueError("cut")
    return content, decompressor.unused_data
