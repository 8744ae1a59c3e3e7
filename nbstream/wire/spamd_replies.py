"""The answers of the spamd protocol, each by what the client's version reads.

Rules: the names of header fields are written as clients compare them; the length of what follows is exact, since
clients count.
"""

from __future__ import annotations

from dataclasses import dataclass

from nbstream.wire.spamd import SpamdCommand, SpamdRequest

PONG_REPLY = b"SPAMD/1.5 0 PONG\r\n"


@dataclass(frozen=True, slots=True)
class SpamdJudgement:
    """What a message is called: a score against the one from which it is spam, in any one unit."""

    spam: bool
    score: float
    required: float


def render_check(request: SpamdRequest, judgement: SpamdJudgement, *content: bytes) -> bytes:
    """The answer to each command that judges, by what the client's version reads.

    ``content`` is what was asked for, in pieces: a report, symbols, a message, a header block; of CHECK none.
    """
    spam = f"Spam: {judgement.spam} ; {judgement.score:.1f} / {judgement.required:.1f}\r\n"
    length = f"Content-length: {sum(map(len, content))}\r\n"
    whole = request.command in {SpamdCommand.PROCESS, SpamdCommand.HEADERS}
    if request.minor >= 3:
        head = spam if request.command is SpamdCommand.CHECK else length + spam
    elif whole:
        head = length if request.minor == 2 else ""
    else:
        head = spam
    end = b"\r\n" if request.command is SpamdCommand.SYMBOLS and request.minor < 3 else b""
    return b"".join((f"SPAMD/1.1 0 EX_OK\r\n{head}\r\n".encode("ascii"), *content, end))


def render_tell(*, did_set: bool = False, did_remove: bool = False) -> bytes:
    """The answer to TELL: what was changed, if anything was."""
    did = ("DidSet: local\r\n" if did_set else "") + ("DidRemove: local\r\n" if did_remove else "")
    return f"SPAMD/1.1 0 EX_OK\r\n{did}Content-length: 0\r\n\r\n".encode("ascii")
