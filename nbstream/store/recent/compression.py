"""The compression of checked messages: Zstandard with a trained dictionary, or deflated with a list of tokens.

Rules: both dictionaries are parts of the stored form: with another one, what is in Redis cannot be read. A later
dictionary therefore gets another identifier, which each compressed message names, and this one stays. The first
bytes tell the two forms apart. What is read from Redis may be anything: no more than ``MAX_UNPACKED_BYTES`` come
out of it, whatever it says of its own size.

``python -m tools.dictionary`` has trained the dictionary, on mail that was made up for it.
"""

from __future__ import annotations

import threading
import zlib
from functools import cache
from importlib.resources import files

import zstandard

from nbstream.store.model.ledger import MAX_UNPACKED_BYTES, inflate_first

DICTIONARY_ID = 32_769
"""The identifier of the dictionary; those below 32,768 are reserved by RFC 8878, 5."""

DICTIONARY_FILE = f"checked_messages_{DICTIONARY_ID}.dictionary"
"""The file of the dictionary, beside this module."""

ZSTD_LEVEL = 1
"""The level of compression. At level 3 messages of two corpora are smaller by 6 %, and take 1.4 times as long."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SLICE_BYTES = 128  # 32 blocks at most, each of which becomes 128 KiB at most
_ZLIB_LEVEL = 1  # as in the ledger
# With these a message takes 32 kB of memory to deflate instead of 256 kB, and the result is as small.
_WINDOW_BITS, _MEMORY_LEVEL = 12, 5
# The most frequent tokens stand at the end, as zlib advises.
_FREQUENT_TOKENS = b"\n".join(
    b"""
    body:please body:click body:free body:email body:here body:http body:www body:com url.scheme:https
    url.scheme:http url.path:html url.path:index absent:reply-to x-mailer:microsoft x-mailer:outlook
    x-priority:3 field:X-Mailer field:Reply-To field:List-Id field:Content-Transfer-Encoding
    encoding:quoted-printable:t/html encoding:8bit:t/plain encoding:7bit:t/plain
    content-transfer-encoding:7bit content-type:text/plain type:multipart/alternative charset:us-ascii
    charset:utf-8 tree:0t/plain order:subject>date order:from>to order:message-id>date order:to>subject
    order:mime-version>content-type same-domain:return-path:True same-domain:message-id:False
    date.shape:Aa,_9_Aa_9_9:9:9_-9 from.shape:"a_a"_<a@a> return-path.shape:<a@a> return-path.addresses:1
    from.local:a to.local:a to.shape:a@a subject.length: received:2 mime-version:1.0 field:MIME-Version
    field:Message-ID field:Content-Type field:Subject field:Date field:From field:To field:Received
    field:Return-Path from.addresses:1 to.addresses:1 type:text/html type:text/plain kind:text:1 parts:1
    size:t/plain: body:was body:on body:this body:is body:if body:not body:be body:with body:that body:your
    body:you body:in body:for body:of body:and body:to body:a body:the
    """.split()
)


class _ZstdContexts(threading.local):
    """A compressor and a decompressor for each thread: one of them does one thing at a time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, dict_data=_dictionary())
        self.decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(), max_window_size=MAX_UNPACKED_BYTES)


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


def deflate(content: bytes) -> bytes:
    """Return ``content``, deflated as in a model of the former schema."""
    compressor = zlib.compressobj(_ZLIB_LEVEL, wbits=_WINDOW_BITS, memLevel=_MEMORY_LEVEL, zdict=_FREQUENT_TOKENS)
    return compressor.compress(content) + compressor.flush()


def is_compressed(packed: bytes) -> bool:
    """Whether ``packed`` begins with what ``compress`` returned."""
    return packed.startswith(_ZSTD_MAGIC)


def decompress_first(packed: bytes) -> tuple[bytes, bytes]:
    """Return the content that ``packed`` begins with, in either form, and the bytes that follow it.

    Messages that were deflated without the list of tokens are read too. Raises ``ValueError`` for anything else.
    """
    try:
        if not is_compressed(packed):
            return inflate_first(packed, _FREQUENT_TOKENS)
        frame = zstandard.get_frame_parameters(packed)
        if frame.content_size > MAX_UNPACKED_BYTES or frame.dict_id != DICTIONARY_ID:  # unknown is the largest one
            raise ValueError("too large, or compressed with another dictionary")
        return _decompress_frame(packed, frame.content_size)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError("damaged") from error


def _decompress_frame(packed: bytes, content_size: int) -> tuple[bytes, bytes]:
    """Return the content of the frame, which may be more than its header says, and the bytes that follow it."""
    decompressor = _zstd().decompressor.decompressobj()
    content = bytearray()
    for end in range(_SLICE_BYTES, len(packed) + _SLICE_BYTES, _SLICE_BYTES):
        content += decompressor.decompress(packed[end - _SLICE_BYTES : end])
        if len(content) > content_size:
            raise ValueError("more than its header says")
        if decompressor.eof:
            return bytes(content), decompressor.unused_data + packed[end:]
    raise ValueError("cut")
