"""Trains the dictionary with which tokens are compressed, and writes its file.

``python -m tools.dictionary`` gives the same bytes each time, by the same version of zstandard. Do it again only
together with another ``DICTIONARY_ID``: with another dictionary, what is in Redis cannot be read.
"""

from __future__ import annotations

from pathlib import Path

import zstandard

from nbstream.mail.message import Message
from nbstream.store import compression
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokenizer
from tools.dictionary.typical_mail import typical_mail

_FILE = Path(compression.__file__).parent / compression.DICTIONARY_FILE
_BYTES = 32 << 10  # with 16 and 64 kB the messages of two corpora were as large, within 2 %
_MESSAGES = 6_000
_SEED = 1


def train_dictionary(messages: int) -> bytes:
    """Return the dictionary that this number of messages gives."""
    tokenizer = Tokenizer()
    contents: list[bytes | bytearray | memoryview] = [
        CheckedMessage("", tokenizer.tokenize(Message.parse(raw)).tokens, 0.5, "unsure").content()
        for raw in typical_mail(messages, _SEED)
    ]
    trained = zstandard.train_dictionary(
        _BYTES, contents, dict_id=compression.DICTIONARY_ID, level=compression.ZSTD_LEVEL
    )
    return trained.as_bytes()


if __name__ == "__main__":
    _FILE.write_bytes(train_dictionary(_MESSAGES))
    print(f"written: {_FILE.name}, {_FILE.stat().st_size} bytes")
