"""The content of DATA: from what was on the wire to the message."""

from __future__ import annotations

import asyncio

from nbstream.mail.headers import canonical
from nbstream.mail.lines import pieces
from nbstream.wire.smtp import unstuff

END = b"\r\n.\r\n"
"""What ends DATA, and nothing else does (RFC 5321 4.1.1.4)."""


async def message(chunks: list[bytes]) -> bytes:
    """The message that DATA carried: dots unstuffed, lone CR and LF made CRLF, the final dot left out.

    ``chunks`` begin with the CRLF before the message, and are emptied; others run between two pieces.
    """
    stuffed = b"".join(chunks)[: -len(END) + 2]
    chunks.clear()
    rewritten: list[bytes] = []
    after_crlf = False
    for piece in pieces(stuffed):
        unstuffed = unstuff(piece[1:] if after_crlf and piece.startswith(b".") else piece)
        rewritten.append(canonical(unstuffed))
        after_crlf = piece.endswith(b"\r\n")
        if len(rewritten) > 1:
            await asyncio.sleep(0)
    return b"".join(rewritten)[2:]
