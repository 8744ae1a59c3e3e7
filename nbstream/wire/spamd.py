"""The spamd protocol without I/O: what a client sends becomes a request, or why it is refused.

Rules: one request a connection, as SpamAssassin's server has it. The message ends where ``Content-length`` says
or, without that, where the client ends; a length that is wrong is refused, for half a message must never be
learned, nor given back as a whole one. However the bytes are cut, the events are the same. Lines, header fields
and messages are bounded, unpacked ones too. No reply repeats anything that a client sent.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

EX_DATAERR, EX_UNAVAILABLE, EX_TEMPFAIL, EX_PROTOCOL, EX_TIMEOUT = 65, 69, 75, 76, 79

MAX_LINE_BYTES = 8192
MAX_FIELDS = 256
_OUTPUT_BYTES = 256 * 1024
_INPUT_BYTES = 64 * 1024

_REQUEST_LINE = re.compile(rb"([A-Z_]{1,20}) SPAMC/1\.([0-9])[ \t]*")
_NUMBER = re.compile(rb"[0-9]{1,15}")
_UNPRINTABLE = re.compile(r"[^!-~]")
_MAX_USER_LENGTH = 100


class SpamdCommand(StrEnum):
    """What a client can ask for."""

    CHECK = "CHECK"
    SYMBOLS = "SYMBOLS"
    REPORT = "REPORT"
    REPORT_IFSPAM = "REPORT_IFSPAM"
    PROCESS = "PROCESS"
    HEADERS = "HEADERS"
    TELL = "TELL"
    PING = "PING"
    SKIP = "SKIP"


_COMMANDS_WITHOUT_MESSAGE = {SpamdCommand.PING, SpamdCommand.SKIP}


class TellRequest(StrEnum):
    """What TELL asks for."""

    SPAM = "spam"
    HAM = "ham"
    FORGET = "forget"
    NOTHING = "nothing"
    """Only what is not ours to do: to report to others."""


@dataclass(frozen=True, slots=True)
class SpamdRequest:
    """A complete request; ``minor`` is the 5 of version 1.5, ``user`` printable ASCII or empty.

    Where ``packed``, ``body`` is for ``decompress``. ``tell`` is NOTHING for all other commands.
    """

    command: SpamdCommand
    minor: int
    body: bytes = field(default=b"", repr=False)
    user: str = ""
    compressed: bool = False
    tell: TellRequest = TellRequest.NOTHING


@dataclass(frozen=True, slots=True)
class SpamdRefusal:
    """Why a request is refused: an exit code (sysexits.h; 79 is the protocol's own) and a text for people."""

    code: int
    text: str

    def render(self) -> bytes:
        """The whole answer.

        One line and no more: behind an empty header spamc 4.0.1 takes TELL for done, whatever the code says, and
        an empty message for the one that it gave to PROCESS.
        """
        return f"SPAMD/1.0 {self.code} {self.text}\r\n".encode("ascii")


SpamdEvent: TypeAlias = SpamdRequest | SpamdRefusal


class _RefusedError(ValueError):
    """A request is refused."""

    def __init__(self, text: str, code: int = EX_PROTOCOL) -> None:
        super().__init__(text)
        self.refusal = SpamdRefusal(code, text)


class SpamdParser:
    """Takes the bytes of one connection.

    At most two events come out: a request, and a refusal instead of it, or behind it where bytes follow the end of
    its message. After a refusal everything is passed over.
    """

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._head: _RequestHead | None = None
        self._discarding = self._request_complete = False

    @property
    def done(self) -> bool:
        """Whether all that may still come is passed over."""
        return self._discarding

    def discard_rest(self) -> None:
        """Pass over all that may still come, and keep nothing of what came."""
        self._discarding = True
        self._buffer.clear()

    def feed(self, data: bytes) -> list[SpamdEvent]:
        """What came, and the events that it completes."""
        if self._discarding or not data:
            return []
        self._buffer += data
        try:
            return list(self._advance())
        except _RefusedError as refused:
            return [self._finish(refused.refusal)]

    def end(self) -> list[SpamdEvent]:
        """The client has closed its side: the events that this completes."""
        if self._discarding or self._request_complete:
            return []
        head = self._head
        if head is None or not head.complete:
            return [self._finish(SpamdRefusal(EX_PROTOCOL, "Bad header line: (EOF during headers)"))]
        if head.length is not None:
            return [self._finish(SpamdRefusal(EX_PROTOCOL, "Content-length mismatch: the message is shorter"))]
        return [self._finish(head.request(bytes(self._buffer)))]

    def _advance(self) -> Iterator[SpamdEvent]:
        head = self._head
        while head is None or not head.complete:
            line = self._line()
            if line is None:
                return
            if head is None:
                head = self._head = _RequestHead.from_request_line(line)
                if head.command in _COMMANDS_WITHOUT_MESSAGE:
                    yield self._finish(head.request(b""))
                    return
            else:
                head.add(line)
        if (len(self._buffer) if head.length is None else head.length) > self._max_message:
            raise _RefusedError("Message too large", EX_DATAERR)
        if not self._request_complete:
            if head.length is None or len(self._buffer) < head.length:
                return
            self._request_complete = True
            body = bytes(memoryview(self._buffer)[: head.length])  # one copy: of 20 MB it takes 13 ms
            del self._buffer[: head.length]
            yield head.request(body)
        if self._buffer:
            yield self._finish(SpamdRefusal(EX_PROTOCOL, "Content-length mismatch: the message is longer"))

    def _line(self) -> bytes | None:
        """The next line without its end, CRLF or LF; None where it is not there yet."""
        end = self._buffer.find(b"\n", 0, MAX_LINE_BYTES)
        if end < 0:
            if len(self._buffer) >= MAX_LINE_BYTES:
                raise _RefusedError("Bad header line: (too long)")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _finish(self, last: SpamdEvent) -> SpamdEvent:
        self.discard_rest()
        return last


class _RequestHead:
    """The request line and the header fields, as they come in."""

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
        """By the request line."""
        found = _REQUEST_LINE.fullmatch(line)
        if found is None or found[1].decode("ascii") not in set(SpamdCommand):
            raise _RefusedError("Bad header line: (no such request)")
        return cls(SpamdCommand(found[1].decode("ascii")), int(found[2]))

    def add(self, line: bytes) -> None:
        """The next line of the header; an empty one completes it."""
        if not line:
            self._complete()
            return
        self._lines += 1
        if self._lines > MAX_FIELDS:
            raise _RefusedError("Bad header line: (too many)")
        name, colon, value = line.partition(b":")
        if not colon:
            raise _RefusedError("Bad header line: (header not in 'Name: value' format)")
        # Clients write them in one case only, and so do we; a client that does not is understood all the same.
        key, text = name.strip().lower().decode("latin-1"), value.strip()
        if self._fields.setdefault(key, text) != text:
            raise _RefusedError("Bad header line: (contradicts one above)")

    def _complete(self) -> None:
        length = self._fields.get("content-length")
        if length is not None:
            if not _NUMBER.fullmatch(length):
                raise _RefusedError("Bad header line: (Content-length contains non-numeric bytes)")
            self.length = int(length)
        packing = self._fields.get("compress")
        if packing is not None and packing.lower() != b"zlib":
            raise _RefusedError("Bad header line: (only zlib is known)")
        # Where a client died halfway its connection ends too: such a message could be packed wrong, or be learned.
        if length is None and (packing is not None or self.command is SpamdCommand.TELL):
            raise _RefusedError("Bad header line: (Content-length is missing)")
        self._tell = self._tell_request()
        self.complete = True

    def _tell_request(self) -> TellRequest:
        if self.command is not SpamdCommand.TELL:
            return TellRequest.NOTHING
        set_, remove = (_tell_targets(self._fields.get(name, b"")) for name in ("set", "remove"))
        if "local" in set_:
            label = self._fields.get("message-class", b"").lower()
            if label not in {b"spam", b"ham"} or "local" in remove:
                raise _RefusedError(
                    "Bad header line: (Set: local needs one Message-class, spam or ham, and no Remove)"
                )
            return TellRequest(label.decode("ascii"))
        if "local" in remove:
            return TellRequest.FORGET
        if not set_ and not remove:
            raise _RefusedError("Bad header line: (TELL needs Set or Remove)")
        return TellRequest.NOTHING

    def request(self, body: bytes) -> SpamdRequest:
        """The whole request."""
        user = _UNPRINTABLE.sub("?", self._fields.get("user", b"").decode("utf-8", "replace"))[:_MAX_USER_LENGTH]
        return SpamdRequest(self.command, self.minor, body, user, "compress" in self._fields, self._tell)


def _tell_targets(value: bytes) -> set[str]:
    return {each.strip().lower() for each in value.decode("latin-1").split(",")} - {""}


def decompress(body: bytes, max_message: int) -> Iterator[bytes | SpamdRefusal]:
    """A packed message in pieces of at most 256 KiB, some of them empty, of at most ``max_message`` bytes in all.

    A refusal is the last one. No piece is made before it is asked for, and each of at most 64 KiB of ``body``: to
    unpack to nothing takes time too.
    """
    stream = zlib.decompressobj()
    size, rest, slices = 0, b"", (body[at : at + _INPUT_BYTES] for at in range(0, len(body), _INPUT_BYTES))
    while not stream.eof:
        given = rest = rest or next(slices, b"")
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
        if not piece and not given:
            yield SpamdRefusal(EX_PROTOCOL, "Compressed message is cut off")
            return
        yield piece
    if stream.unused_data or next(slices, b""):
        yield SpamdRefusal(EX_PROTOCOL, "Compressed message is followed by something else")
