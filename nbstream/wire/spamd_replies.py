"""The answers of the spamd protocol, in the form that the client's version reads.

Rules: the names of header fields have the case that clients compare with; the length of the content is exact,
because clients count its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.wire.spamd import SpamdCommand, SpamdRequest

if TYPE_CHECKING:
    from nbstream.policy.verdict import Verdict

PONG_REPLY = b"SPAMD/1.5 0 PONG\r\n"


@dataclass(frozen=True, slots=True)
class SpamdJudgement:
    """The verdict on a message: its score, and the score from which a message is spam, in the same unit."""

    verdict: Verdict
    score: float
    required: float


def render_check(request: SpamdRequest, judgement: SpamdJudgement, *content: bytes | memoryview) -> bytes:
    """Return the answer to a command that checks a message, in the form that the client's version reads.

    ``content`` is what the command asks for, in pieces: a report, symbols, a message or a header block; CHECK has
    none. From version 1.3 on a client that asks for it gets the verdict by its name, too: others may take a field
    that they do not know for a fault.
    """
    spam = f"Spam: {judgement.verdict.is_spam} ; {judgement.score:.1f} / {judgement.required:.1f}\r\n"
    length = f"Content-length: {sum(map(len, content))}\r\n"
    returns_message = request.command in {SpamdCommand.PROCESS, SpamdCommand.HEADERS}
    if request.minor >= 3:
        head = spam if request.command is SpamdCommand.CHECK else length + spam
        head += f"Verdict: {judgement.verdict}\r\n" if request.wants_verdict else ""
    elif returns_message:
        head = length if request.minor == 2 else ""
    else:
        head = spam
    end = b"\r\n" if request.command is SpamdCommand.SYMBOLS and request.minor < 3 else b""
    return b"".join((f"SPAMD/1.1 0 EX_OK\r\n{head}\r\n".encode("ascii"), *content, end))


def render_tell(*, did_set: bool = False, did_remove: bool = False) -> bytes:
    """Return the answer to TELL: what was changed, if anything was."""
    changes = ("DidSet: local\r\n" if did_set else "") + ("DidRemove: local\r\n" if did_remove else "")
    return f"SPAMD/1.1 0 EX_OK\r\n{changes}Content-length: 0\r\n\r\n".encode("ascii")
