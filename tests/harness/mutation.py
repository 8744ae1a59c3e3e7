"""Messages broken on purpose: what a mail server must pass on all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_PIECES = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b"=", b"=?utf-8?b?", b"?=", b"--b", b"--b--", b".",
    b"\r\n.\r\n", b"\n.\n",
    b"Content-Type: multipart/mixed; boundary=b\r\n", b"Content-Type: message/rfc822\r\n",
    b"Content-Transfer-Encoding: base64\r\n", b"<html><a href='http://x", b"\xff\xfe", b"X-Nbstream: ham\r\n",
    b"Received: x\r\n", b"\x1b[2J", b"a" * 5000, b"charset=utf-16", b";;;;", b'"', b":",
)  # fmt: skip


def mutations(
    originals: Sequence[bytes], count: int, seed: int = 11, words: Sequence[bytes] = ()
) -> Iterator[bytes]:
    """``count`` messages, each an original with a few pieces cut out, doubled, swapped or put in.

    ``words`` are further pieces that are put in.
    """
    draw = random.Random(seed)
    pieces = (*_PIECES, *words)
    for _ in range(count):
        raw = bytearray(draw.choice(originals))
        for _ in range(draw.randint(1, 8)):
            start = draw.randrange(len(raw) + 1)
            end = min(len(raw), start + draw.choice((0, 1, 10, 200)))
            match draw.randrange(4):
                case 0:
                    del raw[start:end]
                case 1:
                    raw[start:start] = raw[start:end] * draw.choice((1, 1, 30))
                case 2:
                    raw[start:end] = draw.choice(pieces)
                case _:
                    raw[start:end] = bytes(draw.randrange(256) for _ in range(end - start))
        yield bytes(raw)
