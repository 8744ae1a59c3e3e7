"""The spamd protocol without I/O: the bytes that a client sends become a request, or a refusal with its reason.

Rules: a connection has one request, as in SpamAssassin's server. The message ends where ``Content-length`` says
or, without that field, where the client closes its side. A wrong length is refused: half a message must never be
learned, nor be returned as a whole one. The events do not depend on how the bytes are cut into pieces. Lines,
header fields and messages are bounded, decompressed messages too. No reply repeats anything that a client sent.

Answers have the form that the client's version reads: names of header fields in the case that clients compare
with, and the exact length of the content, because clients count its bytes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.columns import CLASS_NAME
from nbstream.mail.lines import ContentBuffer
from nbstream.server.connections import printable_user

if TYPE_CHECKING:
    from nbstream.policy.verdict import Verdict


EX_DATAERR, EX_UNAVAILABLE, EX_SOFTWARE, EX_TEMPFAIL, EX_PROTOCOL, EX_TIMEOUT = 65, 69, 70, 75, 76, 79

MAX_LINE_BYTES = 8192
MAX_FIELDS = 256
_OUTPUT_BYTES = 256 * 1024
_INPUT_BYTES = 64 * 1024

_REQUEST_LINE = re.compile(rb"([A-Z_]{1,20}) SPAMC/1\.([0-9])[ \t]*")
_NUMBER = re.compile(rb"[0-9]{1,15}")


class SpamdCommand(StrEnum):
    """The commands of a client."""

    CHECK = "CHECK"
    SYMBOLS = "SYMBOLS"
    REPORT = "REPORT"
    REPORT_IFSPAM = "REPORT_IFSPAM"
    PROCESS = "PROCESS"
    HEADERS = "HEADERS"
    TELL = "TELL"
    PING = "PING"
    SKIP = "SKIP"


_COMMANDS = {command.value.encode("ascii"): command for command in SpamdCommand}
_COMMANDS_WITHOUT_MESSAGE = {SpamdCommand.PING, SpamdCommand.SKIP}


class TellRequest(StrEnum):
    """What a TELL asks for: to learn the message, to forget it, or nothing that nbstream does."""

    LEARN = "learn"
    FORGET = "forget"
    NOTHING = "nothing"
    """Only a report to others, which nbstream does not do."""


@dataclass(frozen=True, slots=True)
class SpamdRequest:
    """A complete request; ``minor`` is the 5 of version 1.5, ``user`` is printable ASCII or empty.

    Where ``compressed`` is set, ``decompress`` reads ``body``. ``tell`` is NOTHING for all commands but TELL;
    ``label`` is the class to learn, which the model may not have.
    ``wants_verdict`` asks for a field in the answer that SpamAssassin's protocol does not have.
    """

    command: SpamdCommand
    minor: int
    body: bytes = field(default=b"", repr=False)
    user: str = ""
    compressed: bool = False
    tell: TellRequest = TellRequest.NOTHING
    label: str = ""
    wants_verdict: bool = False


@dataclass(frozen=True, slots=True)
class SpamdRefusal:
    """Why a request is refused: an exit code (sysexits.h; 79 is the protocol's own) and a text for people."""

    code: int
    text: str

    def render(self) -> bytes:
        """Return the whole answer, which is one line.

        It has no empty header: after one, spamc 4.0.1 takes a TELL for done, whatever the code says, and takes an
        empty message as the answer to PROCESS.
        """
        return f"SPAMD/1.0 {self.code} {self.text}\r\n".encode("ascii")


SpamdEvent: TypeAlias = SpamdRequest | SpamdRefusal


class _RefusedError(ValueError):
    """The request is refused; ``refusal`` is the event."""

    def __init__(self, text: str, code: int = EX_PROTOCOL) -> None:
        super().__init__(text)
        self.refusal = SpamdRefusal(code, text)


class SpamdParser:
    """Takes the bytes of one connection.

    It returns at most two events: a request or a refusal, or a request and then a refusal, where bytes follow the
    end of its message. After a refusal all bytes are discarded.
    """

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._body = ContentBuffer()
        self._head: _RequestHead | None = None
        self._discarding = self._request_complete = False

    @property
    def done(self) -> bool:
        """Whether all further bytes are discarded."""
        return self._discarding

    def discard_rest(self) -> None:
        """Discard all further bytes, and free those that were received."""
        self._discarding = True
        self._buffer.clear()
        self._body = ContentBuffer()

    def feed(self, data: bytes) -> list[SpamdEvent]:
        """Take received bytes, and return the events that they complete."""
        if self._discarding or not data:
            return []
        self._buffer += data
        try:
            return list(self._advance())
        except _RefusedError as refused:
            return [self._finish(refused.refusal)]

    def end(self) -> list[SpamdEvent]:
        """Return the events that are complete once the client has closed its side."""
        if self._discarding or self._request_complete:
            return []
        head = self._head
        if head is None or not head.complete:
            return [self._finish(SpamdRefusal(EX_PROTOCOL, "Bad header line: (EOF during headers)"))]
        if head.length is not None:
            return [self._finish(SpamdRefusal(EX_PROTOCOL, "Content-length mismatch: the message is shorter"))]
        return [self._finish(head.request(self._body.take()))]

    def _advance(self) -> Iterator[SpamdEvent]:
        head = self._head
        while head is None or not head.complete:
            line = self._next_line()
            if line is None:
                return
            if head is None:
                head = self._head = _RequestHead.from_request_line(line)
                if head.command in _COMMANDS_WITHOUT_MESSAGE:
                    yield self._finish(head.request(b""))
                    return
            else:
                head.add(line)
        if not self._request_complete:
            known_length = len(self._body) + len(self._buffer) if head.length is None else head.length
            if known_length > self._max_message:
                raise _RefusedError("Message too large", EX_DATAERR)
            missing = known_length - len(self._body)
            with memoryview(self._buffer) as received:
                self._body.append(received[:missing])
            del self._buffer[:missing]
            if head.length is None or len(self._body) < head.length:
                return
            self._request_complete = True
            yield head.request(self._body.take())
        if self._buffer:
            yield self._finish(SpamdRefusal(EX_PROTOCOL, "Content-length mismatch: the message is longer"))

    def _next_line(self) -> bytes | None:
        """Return the next line without its end (CRLF or LF), or None while it is incomplete."""
        end = self._buffer.find(b"\n", 0, MAX_LINE_BYTES)
        if end < 0:
            if len(self._buffer) >= MAX_LINE_BYTES:
                raise _RefusedError("Bad header line: (too long)")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _finish(self, event: SpamdEvent) -> SpamdEvent:
        self.discard_rest()
        return event


class _RequestHead:
    """The request line and the header fields, collected line by line."""

    def __init__(self, command: SpamdCommand, minor: int) -> None:
        self.command = command
        self.minor = minor
        self.length: int | None = None
        self.complete = False
        self._tell = TellRequest.NOTHING
        self._fields: dict[str, bytes] = {}
        self._lines = 0

    @classmethod
    def from_request_line(cls, line: bytes) -> _RequestHead:
        """Begin with the request line."""
        match = _REQUEST_LINE.fullmatch(line)
        command = _COMMANDS.get(match[1]) if match else None
        if match is None or command is None:
            raise _RefusedError("Bad header line: (no such request)")
        return cls(command, int(match[2]))

    def add(self, line: bytes) -> None:
        """Add the next line of the header; an empty line completes it."""
        if not line:
            self._complete()
            return
        self._lines += 1
        if self._lines > MAX_FIELDS:
            raise _RefusedError("Bad header line: (too many)")
        name, colon, raw_value = line.partition(b":")
        if not colon:
            raise _RefusedError("Bad header line: (header not in 'Name: value' format)")
        # Clients write each name in one case only, and the replies do too; any other case is accepted as well.
        key, value = name.strip().lower().decode("latin-1"), raw_value.strip()
        if self._fields.setdefault(key, value) != value:
            raise _RefusedError("Bad header line: (contradicts one above)")

    def _complete(self) -> None:
        length = self._fields.get("content-length")
        if length is not None:
            if not _NUMBER.fullmatch(length):
                raise _RefusedError("Bad header line: (Content-length contains non-numeric bytes)")
            self.length = int(length)
        compression = self._fields.get("compress")
        if compression is not None and compression.lower() != b"zlib":
            raise _RefusedError("Bad header line: (only zlib is known)")
        # The connection of a client that dies halfway ends, too: half a message must not be learned or unpacked.
        if length is None and (compression is not None or self.command is SpamdCommand.TELL):
            raise _RefusedError("Bad header line: (Content-length is missing)")
        self._tell = self._tell_request()
        self.complete = True

    @property
    def _label(self) -> str:
        return self._fields.get("message-class", b"").decode("latin-1").lower()

    def _tell_request(self) -> TellRequest:
        if self.command is not SpamdCommand.TELL:
            return TellRequest.NOTHING
        set_targets, remove_targets = (_tell_targets(self._fields.get(name, b"")) for name in ("set", "remove"))
        if "local" in set_targets:
            if not re.fullmatch(CLASS_NAME, self._label) or "local" in remove_targets:
                raise _RefusedError("Bad header line: (Set: local needs one Message-class, and no Remove)")
            return TellRequest.LEARN
        if "local" in remove_targets:
            return TellRequest.FORGET
        if not set_targets and not remove_targets:
            raise _RefusedError("Bad header line: (TELL needs Set or Remove)")
        return TellRequest.NOTHING

    def request(self, body: bytes) -> SpamdRequest:
        """Return the complete request with this body."""
        raw_user = self._fields.get("user")
        user = printable_user(raw_user) if raw_user else ""
        is_compressed, wants_verdict = "compress" in self._fields, "verdict" in self._fields
        label = self._label if self._tell is TellRequest.LEARN else ""
        return SpamdRequest(self.command, self.minor, body, user, is_compressed, self._tell, label, wants_verdict)


def _tell_targets(value: bytes) -> set[str]:
    return {target.strip().lower() for target in value.decode("latin-1").split(",")} - {""}


def decompress(body: bytes, max_message: int) -> Iterator[bytes | SpamdRefusal]:
    """Yield a compressed message in pieces of at most 256 KiB, some of them empty.

    Together they have at most ``max_message`` bytes. A refusal is the last item. Each piece is made when the
    caller asks for it, from at most 64 KiB of ``body``: input that decompresses to nothing takes time too.
    """
    stream = zlib.decompressobj()
    size, rest = 0, b""
    slices = (body[start : start + _INPUT_BYTES] for start in range(0, len(body), _INPUT_BYTES))
    while not stream.eof:
        chunk = rest = rest or next(slices, b"")
        try:
            piece = stream.decompress(rest, _OUTPUT_BYTES)
        except zlib.error:
            yield SpamdRefusal(EX_PROTOCOL, "Compressed message cannot be read")
            return
        rest = stream.unconsumed_tail
        size += len(piece)
        if size > max_message:
            yield SpamdRefusal(EX_DATAERR, "Message too large")
            return
        if not piece and not chunk:
            yield SpamdRefusal(EX_PROTOCOL, "Compressed message is cut off")
            return
        yield piece
    if stream.unused_data or next(slices, b""):
        yield SpamdRefusal(EX_PROTOCOL, "Compressed message is followed by something else")


PONG_REPLY = b"SPAMD/1.5 0 PONG\r\n"


def render_check(
    request: SpamdRequest, verdict: Verdict, score: float, required: float, *content: bytes | memoryview
) -> bytes:
    """Return the answer to a command that checks a message, in the form that the client's version reads.

    From the score ``required`` on, in the unit of ``score``, a message is spam.
    ``content`` is what the command asks for, in pieces: a report, symbols, a message or a header block; CHECK has
    none. From version 1.3 on a client that asks for it gets the verdict by its name, too: others may take a field
    that they do not know for a fault.
    """
    spam = f"Spam: {verdict.is_spam} ; {score:.1f} / {required:.1f}\r\n"
    length = f"Content-length: {sum(map(len, content))}\r\n"
    returns_message = request.command in {SpamdCommand.PROCESS, SpamdCommand.HEADERS}
    if request.minor >= 3:
        head = spam if request.command is SpamdCommand.CHECK else length + spam
        head += f"Verdict: {verdict}\r\n" if request.wants_verdict else ""
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
