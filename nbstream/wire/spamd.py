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

MAX_LINE = 8192
MAX_FIELDS = 256
_PIECE = 256 * 1024
_SLICE = 64 * 1024

_REQUEST = re.compile(rb"([A-Z_]{1,20}) SPAMC/1\.([0-9])[ \t]*")
_NUMBER = re.compile(rb"[0-9]{1,15}")
_UNPRINTABLE = re.compile(r"[^!-~]")
_MAX_USER = 100


class Command(StrEnum):
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


_WITHOUT_MESSAGE = {Command.PING, Command.SKIP}


class Tell(StrEnum):
    """What TELL asks for."""

    SPAM = "spam"
    HAM = "ham"
    FORGET = "forget"
    NOTHING = "nothing"
    """Only what is not ours to do: to report to others."""


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request; ``minor`` is the 5 of version 1.5, ``user`` printable ASCII or empty.

    Where ``packed``, ``body`` is for ``unpack``. ``tell`` is NOTHING for all other commands.
    """

    command: Command
    minor: int
    body: bytes = field(default=b"", repr=False)
    user: str = ""
    packed: bool = False
    tell: Tell = Tell.NOTHING


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: an exit code (sysexits.h; 79 is the protocol's own) and a text for people."""

    code: int
    text: str

    def render(self) -> bytes:
        """The whole answer.

        One line and no more: behind an empty header spamc 4.0.1 takes TELL for done, whatever the code says, and
        an empty message for the one that it gave to PROCESS.
        """
        return f"SPAMD/1.0 {self.code} {self.text}\r\n".encode("ascii")


Event: TypeAlias = Request | Refusal


class _RefusedError(ValueError):
    """A request is refused."""

    def __init__(self, text: str, code: int = EX_PROTOCOL) -> None:
        super().__init__(text)
        self.refusal = Refusal(code, text)


class Parser:
    """Takes the bytes of one connection.

    At most two events come out: a request, and a refusal instead of it, or behind it where bytes follow the end of
    its message. After a refusal everything is passed over.
    """

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._done = self._asked = False

    @property
    def done(self) -> bool:
        """Whether all that may still come is passed over."""
        return self._done

    def drop(self) -> None:
        """Pass over all that may still come, and keep nothing of what came."""
        self._done = True
        self._buffer.clear()

    def feed(self, data: bytes) -> list[Event]:
        """What came, and the events that it completes."""
        if self._done or not data:
            return []
        self._buffer += data
        try:
            return list(self._advance())
        except _RefusedError as refused:
            return [self._end(refused.refusal)]

    def end(self) -> list[Event]:
        """The client has closed its side: the events that this completes."""
        if self._done or self._asked:
            return []
        head = self._head
        if head is None or not head.complete:
            return [self._end(Refusal(EX_PROTOCOL, "Bad header line: (EOF during headers)"))]
        if head.length is not None:
            return [self._end(Refusal(EX_PROTOCOL, "Content-length mismatch: the message is shorter"))]
        return [self._end(head.request(bytes(self._buffer)))]

    def _advance(self) -> Iterator[Event]:
        head = self._head
        while head is None or not head.complete:
            line = self._line()
            if line is None:
                return
            if head is None:
                head = self._head = _Head.begun(line)
                if head.command in _WITHOUT_MESSAGE:
                    yield self._end(head.request(b""))
                    return
            else:
                head.add(line)
        if (len(self._buffer) if head.length is None else head.length) > self._max_message:
            raise _RefusedError("Message too large", EX_DATAERR)
        if not self._asked:
            if head.length is None or len(self._buffer) < head.length:
                return
            self._asked = True
            body = bytes(memoryview(self._buffer)[: head.length])  # one copy: of 20 MB it takes 13 ms
            del self._buffer[: head.length]
            yield head.request(body)
        if self._buffer:
            yield self._end(Refusal(EX_PROTOCOL, "Content-length mismatch: the message is longer"))

    def _line(self) -> bytes | None:
        """The next line without its end, CRLF or LF; None where it is not there yet."""
        end = self._buffer.find(b"\n", 0, MAX_LINE)
        if end < 0:
            if len(self._buffer) >= MAX_LINE:
                raise _RefusedError("Bad header line: (too long)")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _end(self, last: Event) -> Event:
        self.drop()
        return last


class _Head:
    """The request line and the header fields, as they come in."""

    def __init__(self, command: Command, minor: int) -> None:
        self.command = command
        self.minor = minor
        self.length: int | None = None
        self.complete = False
        self._tell = Tell.NOTHING
        self._fields: dict[str, bytes] = {}
        self._lines = 0

    @classmethod
    def begun(cls, line: bytes) -> _Head:
        """By the request line."""
        found = _REQUEST.fullmatch(line)
        if found is None or found[1].decode("ascii") not in set(Command):
            raise _RefusedError("Bad header line: (no such request)")
        return cls(Command(found[1].decode("ascii")), int(found[2]))

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
        if length is None and (packing is not None or self.command is Command.TELL):
            raise _RefusedError("Bad header line: (Content-length is missing)")
        self._tell = self._told()
        self.complete = True

    def _told(self) -> Tell:
        if self.command is not Command.TELL:
            return Tell.NOTHING
        set_, remove = (_places(self._fields.get(name, b"")) for name in ("set", "remove"))
        if "local" in set_:
            label = self._fields.get("message-class", b"").lower()
            if label not in {b"spam", b"ham"} or "local" in remove:
                raise _RefusedError(
                    "Bad header line: (Set: local needs one Message-class, spam or ham, and no Remove)"
                )
            return Tell(label.decode("ascii"))
        if "local" in remove:
            return Tell.FORGET
        if not set_ and not remove:
            raise _RefusedError("Bad header line: (TELL needs Set or Remove)")
        return Tell.NOTHING

    def request(self, body: bytes) -> Request:
        """The whole request."""
        user = _UNPRINTABLE.sub("?", self._fields.get("user", b"").decode("utf-8", "replace"))[:_MAX_USER]
        return Request(self.command, self.minor, body, user, "compress" in self._fields, self._tell)


def _places(value: bytes) -> set[str]:
    return {each.strip().lower() for each in value.decode("latin-1").split(",")} - {""}


def unpack(body: bytes, max_message: int) -> Iterator[bytes | Refusal]:
    """A packed message in pieces of at most 256 KiB, some of them empty, of at most ``max_message`` bytes in all.

    A refusal is the last one. No piece is made before it is asked for, and each of at most 64 KiB of ``body``: to
    unpack to nothing takes time too.
    """
    stream = zlib.decompressobj()
    size, rest, slices = 0, b"", (body[at : at + _SLICE] for at in range(0, len(body), _SLICE))
    while not stream.eof:
        given = rest = rest or next(slices, b"")
        try:
            piece = stream.decompress(rest, _PIECE)
        except zlib.error:
            yield Refusal(EX_PROTOCOL, "Compressed message cannot be read")
            return
        rest = stream.unconsumed_tail
        size += len(piece)
        if size > max_message:
            yield Refusal(EX_DATAERR, "Message too large")
            return
        if not piece and not given:
            yield Refusal(EX_PROTOCOL, "Compressed message is cut off")
            return
        yield piece
    if stream.unused_data or next(slices, b""):
        yield Refusal(EX_PROTOCOL, "Compressed message is followed by something else")
