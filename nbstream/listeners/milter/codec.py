"""The milter protocol without I/O: the bytes that a mail server sends become events.

It is Sendmail's protocol between a mail server and a filter, versions 2 to 6, as ``libmilter/mfdef.h`` and
Postfix's ``milter8.c`` define it. A frame is a length of four bytes (big-endian), a byte for the command, and its
data. The names of the flags are those of ``mfdef.h`` without ``SMFIF_`` and ``SMFIP_``.

Rules: the events do not depend on how the bytes are cut into pieces. A frame, and thereby what waits for its end,
is bounded. What breaks the protocol is one last event with a text, and all further bytes are discarded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from typing import TypeAlias

from nbstream.delivery.next_hop import SmtpReply

MIN_VERSION, MAX_VERSION = 2, 6

MAX_FRAME_BYTES = 1 << 20
"""The largest length of a frame. A body chunk has at most 65,535 bytes; Postfix sends a header field in one frame.
"""

MAX_TEXTS = 1000
"""The largest number of texts in a frame: macros with their values, or an address with its parameters.

Mail servers send some dozen. A frame of nothing but ends of texts would hold up the event loop for 0.1 s and more.
"""

_LENGTH = struct.Struct("!I")
_OPTIONS = struct.Struct("!III")
_PORT_BYTES = 2
_FAMILIES_WITH_ADDRESS = (b"4", b"6", b"L")
_UNKNOWN_FAMILY = b"U"
_HEADER_FIELD = ord("L")


class MilterActions(IntFlag):
    """What a filter may do with a message: those actions that are used here."""

    ADDHDRS = 0x01
    ADDRCPT = 0x04
    DELRCPT = 0x08
    CHGHDRS = 0x10
    QUARANTINE = 0x20
    SETSYMLIST = 0x100


class MilterSteps(IntFlag):
    """How the steps of the protocol differ from those of version 1: those differences that are used here.

    What is not sent (``NO``), what needs no reply (``NR_``), and extensions.
    """

    NOHELO = 0x02
    NOEOH = 0x40
    NR_HDR = 0x80
    NOUNKNOWN = 0x100
    NODATA = 0x200
    SKIP = 0x400
    NR_CONN = 0x1000
    NR_MAIL = 0x4000
    NR_RCPT = 0x8000
    HDR_LEADSPC = 0x100000


class MilterStage(Enum):
    """A command with its letter: of the SMTP client, or what the mail server does with its message."""

    CONNECT = b"C"
    """Its texts are the host, and the IP address or the path of a unix socket; empty where that is not known."""
    HELO = b"H"
    MAIL = b"M"
    """Its texts are the sender as it was given, with its angle brackets if it had any, and the parameters."""
    RCPT = b"R"
    """Its texts are like those of MAIL."""
    DATA = b"T"
    UNKNOWN = b"U"
    END_OF_HEADER = b"N"
    ABORT = b"A"
    """The message that has begun is given up. The connection stays as it is."""
    QUIT = b"Q"
    QUIT_NC = b"K"
    """The session of one SMTP client ends, and the connection goes on for another one."""


@dataclass(frozen=True, slots=True)
class MilterOptions:
    """A version with actions and steps: what a mail server offers at the beginning, or what was agreed on."""

    version: int
    actions: MilterActions
    steps: MilterSteps

    def agree(self, actions: MilterActions, steps: MilterSteps) -> MilterOptions:
        """Return what a filter agrees on that wants these actions and steps: those that are offered here."""
        return MilterOptions(min(self.version, MAX_VERSION), self.actions & actions, self.steps & steps)

    def wants_reply(self, event: MilterEvent) -> bool:
        """Return whether the mail server waits for a reply to the event."""
        if isinstance(event, MilterHeaderField):
            return MilterSteps.NR_HDR not in self.steps
        flag = _NO_REPLY_FLAGS.get(event.stage) if isinstance(event, MilterCommand) else None
        return isinstance(event, MilterBody) or (flag is not None and not flag & self.steps)


@dataclass(frozen=True, slots=True)
class MilterMacros:
    """Macros of the mail server, for the command ``letter`` that follows: ``i``, ``{client_addr}`` and others."""

    letter: bytes
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MilterCommand:
    """A command with its arguments."""

    stage: MilterStage
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MilterHeaderField:
    """One header field.

    ``value`` is everything behind the colon where ``HDR_LEADSPC`` was agreed on; else one space in front is
    missing. Its folds are line feeds and the white space behind them.
    """

    name: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class MilterBody:
    """A piece of the body, with CRLF line ends; ``is_last`` ends the message, with an empty one in most cases."""

    content: bytes = field(repr=False)
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class MilterViolation:
    """The mail server broke the protocol; the text says how, and repeats nothing that was sent."""

    text: str


MilterEvent: TypeAlias = (
    MilterOptions | MilterMacros | MilterCommand | MilterHeaderField | MilterBody | MilterViolation
)

_NO_REPLY_FLAGS = {
    MilterStage.CONNECT: MilterSteps.NR_CONN,
    MilterStage.HELO: 0,
    MilterStage.MAIL: MilterSteps.NR_MAIL,
    MilterStage.RCPT: MilterSteps.NR_RCPT,
    MilterStage.DATA: 0,
    MilterStage.UNKNOWN: 0,
    MilterStage.END_OF_HEADER: 0,
}
"""The flag by which a reply to a command is dispensed with, as far as it is used here. Others have no reply."""


class _ViolationError(ValueError):
    """A frame breaks the protocol; its text is that of the event."""


class MilterParser:
    """Takes the bytes of one connection."""

    def __init__(self) -> None:
        self.skips_header_fields = False
        """Whether header fields are of no use any more: no events are made of them."""
        self._buffer = bytearray()
        self._is_broken = False

    @property
    def pending_bytes(self) -> int:
        """The bytes of a frame that is not complete; at most ``MAX_FRAME_BYTES`` and four."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[MilterEvent]:
        """Take received bytes, and yield the events that they complete. A ``MilterViolation`` is the last one.

        Each command is parsed when its event is asked for. All have to be asked for before the next bytes come.
        """
        if self._is_broken:
            return
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, start)
                _check_length(length)
                end = start + _LENGTH.size + length
                if end > len(buffer):
                    break
                command = start + _LENGTH.size
                if not (self.skips_header_fields and buffer[command] == _HEADER_FIELD):
                    data = bytes(buffer[command + 1 : end])
                    yield _parse_frame(bytes(buffer[command : command + 1]), data)
                start = end
        except _ViolationError as violation:
            self._is_broken = True
            start = len(buffer)
            yield MilterViolation(str(violation))
        del buffer[:start]


def _check_length(length: int) -> None:
    if not length:
        raise _ViolationError("a frame is empty")
    if length > MAX_FRAME_BYTES:
        raise _ViolationError("a frame is too long")


def _parse_frame(letter: bytes, data: bytes) -> MilterEvent:
    match letter:
        case b"L":
            return _parse_header_field(data)
        case b"B" | b"E":
            return MilterBody(data, is_last=letter == b"E")
        case b"D":
            return _parse_macros(data)
        case b"O":
            return _parse_negotiation(data)
        case b"C":
            texts = _parse_connect(data)
        case b"M" | b"R":
            texts = _split_texts(data, at_least=1)
        case b"H" | b"U":
            texts = _split_texts(data, 1)
        case b"A" | b"K" | b"N" | b"Q" | b"T":
            texts = _no_texts(data)
        case _:
            raise _ViolationError("a command is not known")
    return MilterCommand(MilterStage(letter), texts)


def _parse_negotiation(data: bytes) -> MilterOptions:
    if len(data) < _OPTIONS.size:
        raise _ViolationError("a negotiation is too short")
    version, actions, steps = _OPTIONS.unpack_from(data)
    if version < MIN_VERSION:
        raise _ViolationError("a version is older than 2")
    return MilterOptions(version, MilterActions(actions), MilterSteps(steps))


def _parse_macros(data: bytes) -> MilterMacros:
    if not data:
        raise _ViolationError("macros are for no command")
    words = _split_texts(data[1:])
    if len(words) % 2:
        raise _ViolationError("a macro has no value")
    return MilterMacros(data[:1], dict(zip(words[::2], words[1::2], strict=True)))


def _parse_header_field(data: bytes) -> MilterHeaderField:
    name, value = _split(data, 2)
    if not name:
        raise _ViolationError("a header field has no name")
    return MilterHeaderField(name, value)


def _no_texts(data: bytes) -> tuple[str, ...]:
    if data:
        raise _ViolationError("a command without an argument has one")
    return ()


def _parse_connect(data: bytes) -> tuple[str, ...]:
    host, end, rest = data.partition(b"\0")
    family, place = rest[:1], rest[1:]
    if end and family == _UNKNOWN_FAMILY:
        return decode_text(host), ""
    if not end or family not in _FAMILIES_WITH_ADDRESS or len(place) <= _PORT_BYTES:
        raise _ViolationError("a connection has no address of a known kind")
    (address,) = _split_texts(place[_PORT_BYTES:], 1)
    return decode_text(host), without_ipv6_tag(address)


def _split(data: bytes, count: int, at_least: int = 0) -> list[bytes]:
    """Return the strings in ``data``, each of which ends with a NUL; there must be ``count`` of them, if any."""
    if not data:
        words = []
    elif data[-1:] == b"\0":
        words = data[:-1].split(b"\0", MAX_TEXTS)
    else:
        raise _ViolationError("a text does not end")
    if not at_least <= len(words) <= MAX_TEXTS or (count and len(words) != count):
        raise _ViolationError("a command has too few or too many arguments")
    return words


def _split_texts(data: bytes, count: int = 0, at_least: int = 0) -> tuple[str, ...]:
    return tuple(decode_text(word) for word in _split(data, count, at_least))


def decode_text(raw: bytes) -> str:
    """Return the text of an address or a macro; ``encode_text`` gives back the same bytes."""
    return raw.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the bytes of a text of ``decode_text``."""
    return text.encode("utf-8", "surrogateescape")


def without_ipv6_tag(address: str) -> str:
    """Return an address without the ``IPv6:`` that Sendmail and Postfix put before an IPv6 address."""
    return address[len("IPv6:") :] if address[: len("IPv6:")].lower() == "ipv6:" else address


# The replies of a filter to a mail server in the milter protocol, each as the frame that is sent.
#
# Rules: no reply can break out of its frame: a NUL ends a text, so none is written within one. At the end of a
# message any number of changes may come, and then one reply that decides.


def _frame(command: bytes, *data: bytes) -> bytes:
    content = b"".join((command, *data))
    return _LENGTH.pack(len(content)) + content


def _text(text: str) -> bytes:
    return _string(encode_text(text))


def _string(raw: bytes) -> bytes:
    return raw.replace(b"\0", b"") + b"\0"


CONTINUE = _frame(b"c")
"""Go on with the message, and accept it where this was its end."""

DISCARD = _frame(b"d")
"""Accept the message towards its sender, and deliver it to nobody."""

SKIP = _frame(b"s")
"""Send no more of the body. It needs the step ``SKIP``."""

PROGRESS = _frame(b"p")
"""The filter is still at work: wait longer for the reply."""


def negotiation(options: MilterOptions, macros: Sequence[str] = ()) -> bytes:
    """Return what the filter agrees on, and the macros that it wants; these need ``SETSYMLIST``.

    They are in the order of their stages (``SMFIM_``): the connection, HELO, MAIL, RCPT, DATA, the end of the
    message, the end of its header.
    """
    wanted = (_LENGTH.pack(stage) + _text(names) for stage, names in enumerate(macros))
    return _frame(b"O", _OPTIONS.pack(options.version, options.actions, options.steps), *wanted)


def refusal(reply: SmtpReply) -> bytes:
    """Refuse the message with this reply, whose code is 4xx or 5xx, and which has an enhanced status code.

    Sendmail takes the text as a format, so each percent sign is written twice.
    """
    return _frame(b"y", reply.render().replace(b"%", b"%%") + b"\0")


def refusal_text(reply: bytes) -> str | None:
    """Return what a mail server is told by a reply that is a ``refusal``; None for every other one."""
    return reply[5:-1].replace(b"%%", b"%").decode("ascii") if reply[4:5] == b"y" else None


def insert_header(index: int, name: str, value: str) -> bytes:
    """Insert a field; ``index`` 0 is above all others.

    The index counts the fields of the message as it is delivered, with the Received field of the mail server
    itself on top. ``value`` is everything behind the colon where ``HDR_LEADSPC`` was agreed on; its folds are line
    feeds.
    """
    return _frame(b"i", _LENGTH.pack(index), _text(name), _text(value))


def change_header(index: int, name: str, value: bytes | None) -> bytes:
    """Replace the value of the ``index``-th field of this name, from 1 on; None deletes the field.

    The index counts the fields as the filter got them. ``value`` is as in ``insert_header``; an empty one deletes
    the field, too.
    """
    return _frame(b"m", _LENGTH.pack(index), _text(name), _string(value or b""))


def add_recipient(recipient: str) -> bytes:
    """Add a recipient, with its angle brackets."""
    return _frame(b"+", _text(recipient))


def delete_recipient(recipient: str) -> bytes:
    """Delete a recipient, as it came with RCPT."""
    return _frame(b"-", _text(recipient))


def hold(reason: str) -> bytes:
    """Hold the message in the mail server's queue; the reason is for its administrator."""
    return _frame(b"q", _text(reason))
