"""The milter protocol without I/O: the bytes that a mail server sends become events.

It is Sendmail's protocol between a mail server and a filter, versions 2 to 6, as ``libmilter/mfdef.h`` and
Postfix's ``milter8.c`` define it. A frame is a length of four bytes (big-endian), a byte for the command, and its
data. The names of the flags are those of ``mfdef.h`` without ``SMFIF_`` and ``SMFIP_``.

Rules: the events do not depend on how the bytes are cut into pieces. A frame, and thereby what waits for its end,
is bounded. What breaks the protocol is one last event with a text, and all further bytes are discarded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
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
    """What a filter may do with a message."""

    ADDHDRS = 0x01
    CHGBODY = 0x02
    ADDRCPT = 0x04
    DELRCPT = 0x08
    CHGHDRS = 0x10
    QUARANTINE = 0x20
    CHGFROM = 0x40
    ADDRCPT_PAR = 0x80
    SETSYMLIST = 0x100


class MilterSteps(IntFlag):
    """How the steps of the protocol differ from those of version 1.

    What is not sent (``NO``), what needs no reply (``NR_``), and extensions.
    """

    NOCONNECT = 0x01
    NOHELO = 0x02
    NOMAIL = 0x04
    NORCPT = 0x08
    NOBODY = 0x10
    NOHDRS = 0x20
    NOEOH = 0x40
    NR_HDR = 0x80
    NOUNKNOWN = 0x100
    NODATA = 0x200
    SKIP = 0x400
    RCPT_REJ = 0x800
    NR_CONN = 0x1000
    NR_HELO = 0x2000
    NR_MAIL = 0x4000
    NR_RCPT = 0x8000
    NR_DATA = 0x10000
    NR_UNKN = 0x20000
    NR_EOH = 0x40000
    NR_BODY = 0x80000
    HDR_LEADSPC = 0x100000


@dataclass(frozen=True, slots=True)
class MilterOptions:
    """A version with actions and steps: what a mail server offers, or what was agreed on."""

    version: int
    actions: MilterActions
    steps: MilterSteps

    def agree(self, actions: MilterActions, steps: MilterSteps) -> MilterOptions:
        """Return what a filter agrees on that wants these actions and steps: those that are offered here."""
        return MilterOptions(min(self.version, MAX_VERSION), self.actions & actions, self.steps & steps)

    def wants_reply(self, event: MilterEvent) -> bool:
        """Return whether the mail server waits for a reply to the event."""
        flag = _NO_REPLY_FLAGS.get(type(event))
        return flag is not None and not flag & self.steps


@dataclass(frozen=True, slots=True)
class MilterNegotiation:
    """Option negotiation, with which a connection begins: what the mail server offers."""

    offer: MilterOptions


@dataclass(frozen=True, slots=True)
class MilterMacros:
    """Macros of the mail server, for the command ``stage`` that follows: ``i``, ``{client_addr}`` and others."""

    stage: bytes
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MilterConnect:
    """An SMTP client connected to the mail server.

    ``address`` is its IP address, or the path of its unix socket; it is empty where the mail server knows none.
    """

    host: str
    address: str


@dataclass(frozen=True, slots=True)
class MilterHelo:
    """HELO or EHLO of the SMTP client."""

    name: str


@dataclass(frozen=True, slots=True)
class MilterMail:
    """MAIL: a message begins. ``sender`` is the address as it was given, with its angle brackets if it had any."""

    sender: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MilterRecipient:
    """RCPT; ``recipient`` is the address as it was given, with its angle brackets if it had any."""

    recipient: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MilterData:
    """DATA."""


@dataclass(frozen=True, slots=True)
class MilterUnknownCommand:
    """An SMTP command that the mail server does not know."""

    line: str


@dataclass(frozen=True, slots=True)
class MilterHeaderField:
    """One header field.

    ``value`` is everything behind the colon where ``HDR_LEADSPC`` was agreed on; else one space in front is
    missing. Its folds are line feeds and the white space behind them.
    """

    name: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class MilterHeaderEnd:
    """The end of the header."""


@dataclass(frozen=True, slots=True)
class MilterBody:
    """A piece of the body, with CRLF line ends."""

    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MilterBodyEnd:
    """The end of the message; ``content`` is a last piece of the body, and empty in most cases."""

    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class MilterAbort:
    """The message that has begun is given up. The connection stays as it is."""


@dataclass(frozen=True, slots=True)
class MilterQuit:
    """The connection ends; with ``reuses_connection`` (QUIT_NC) it goes on, for another SMTP client."""

    reuses_connection: bool = False


@dataclass(frozen=True, slots=True)
class MilterViolation:
    """The mail server broke the protocol; the text says how, and repeats nothing that was sent."""

    text: str


MilterEvent: TypeAlias = (
    MilterNegotiation
    | MilterMacros
    | MilterConnect
    | MilterHelo
    | MilterMail
    | MilterRecipient
    | MilterData
    | MilterUnknownCommand
    | MilterHeaderField
    | MilterHeaderEnd
    | MilterBody
    | MilterBodyEnd
    | MilterAbort
    | MilterQuit
    | MilterViolation
)

_NO_FLAG = MilterSteps(0)
_NO_REPLY_FLAGS: Mapping[type, MilterSteps] = {
    MilterConnect: MilterSteps.NR_CONN,
    MilterHelo: MilterSteps.NR_HELO,
    MilterMail: MilterSteps.NR_MAIL,
    MilterRecipient: MilterSteps.NR_RCPT,
    MilterData: MilterSteps.NR_DATA,
    MilterUnknownCommand: MilterSteps.NR_UNKN,
    MilterHeaderField: MilterSteps.NR_HDR,
    MilterHeaderEnd: MilterSteps.NR_EOH,
    MilterBody: MilterSteps.NR_BODY,
    MilterBodyEnd: _NO_FLAG,
}
"""The flag by which a reply to an event is dispensed with. Other events have no such reply."""


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

    def feed(self, data: bytes) -> list[MilterEvent]:
        """Take received bytes, and return the events that they complete. A ``MilterViolation`` is the last one."""
        if self._is_broken:
            return []
        buffer = self._buffer
        buffer += data
        events: list[MilterEvent] = []
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
                    events.append(_parse_frame(bytes(buffer[command : command + 1]), data))
                start = end
        except _ViolationError as violation:
            self._is_broken = True
            events.append(MilterViolation(str(violation)))
            start = len(buffer)
        del buffer[:start]
        return events


def _check_length(length: int) -> None:
    if not length:
        raise _ViolationError("a frame is empty")
    if length > MAX_FRAME_BYTES:
        raise _ViolationError("a frame is too long")


def _parse_frame(command: bytes, data: bytes) -> MilterEvent:
    parse = _PARSERS.get(command)
    if parse is None:
        raise _ViolationError("a command is not known")
    return parse(data)


def _parse_negotiation(data: bytes) -> MilterEvent:
    if len(data) < _OPTIONS.size:
        raise _ViolationError("a negotiation is too short")
    version, actions, steps = _OPTIONS.unpack_from(data)
    if version < MIN_VERSION:
        raise _ViolationError("a version is older than 2")
    return MilterNegotiation(MilterOptions(version, MilterActions(actions), MilterSteps(steps)))


def _parse_macros(data: bytes) -> MilterEvent:
    if not data:
        raise _ViolationError("macros are for no command")
    words = _split_texts(data[1:])
    if len(words) % 2:
        raise _ViolationError("a macro has no value")
    return MilterMacros(data[:1], dict(zip(words[::2], words[1::2], strict=True)))


def _parse_connect(data: bytes) -> MilterEvent:
    host, end, rest = data.partition(b"\0")
    family, place = rest[:1], rest[1:]
    if end and family == _UNKNOWN_FAMILY:
        return MilterConnect(decode_text(host), "")
    if not end or family not in _FAMILIES_WITH_ADDRESS or len(place) <= _PORT_BYTES:
        raise _ViolationError("a connection has no address of a known kind")
    (address,) = _split_texts(place[_PORT_BYTES:], 1)
    return MilterConnect(decode_text(host), without_ipv6_tag(address))


def _parse_helo(data: bytes) -> MilterEvent:
    return MilterHelo(*_split_texts(data, 1))


def _parse_mail(data: bytes) -> MilterEvent:
    sender, *parameters = _split_texts(data) or _no_argument()
    return MilterMail(sender, tuple(parameters))


def _parse_recipient(data: bytes) -> MilterEvent:
    recipient, *parameters = _split_texts(data) or _no_argument()
    return MilterRecipient(recipient, tuple(parameters))


def _parse_unknown_command(data: bytes) -> MilterEvent:
    return MilterUnknownCommand(*_split_texts(data, 1))


def _parse_header_field(data: bytes) -> MilterEvent:
    name, value = _split(data, 2)
    if not name:
        raise _ViolationError("a header field has no name")
    return MilterHeaderField(name, value)


def _parse_body(data: bytes) -> MilterEvent:
    return MilterBody(data)


def _parse_message_end(data: bytes) -> MilterEvent:
    return MilterBodyEnd(data)


def _without_data(event: MilterEvent) -> Callable[[bytes], MilterEvent]:
    def parse(data: bytes) -> MilterEvent:
        if data:
            raise _ViolationError("a command without an argument has one")
        return event

    return parse


_PARSERS: Mapping[bytes, Callable[[bytes], MilterEvent]] = {
    b"A": _without_data(MilterAbort()),
    b"B": _parse_body,
    b"C": _parse_connect,
    b"D": _parse_macros,
    b"E": _parse_message_end,
    b"H": _parse_helo,
    b"K": _without_data(MilterQuit(reuses_connection=True)),
    b"L": _parse_header_field,
    b"M": _parse_mail,
    b"N": _without_data(MilterHeaderEnd()),
    b"O": _parse_negotiation,
    b"Q": _without_data(MilterQuit()),
    b"R": _parse_recipient,
    b"T": _without_data(MilterData()),
    b"U": _parse_unknown_command,
}


def _split(data: bytes, count: int) -> list[bytes]:
    """Return the strings in ``data``, each of which ends with a NUL; there must be ``count`` of them, if any."""
    if not data:
        words = []
    elif data[-1:] == b"\0":
        words = data[:-1].split(b"\0", MAX_TEXTS)
    else:
        raise _ViolationError("a text does not end")
    if len(words) > MAX_TEXTS or (count and len(words) != count):
        raise _ViolationError("a command has too few or too many arguments")
    return words


def _split_texts(data: bytes, count: int = 0) -> list[str]:
    return [decode_text(word) for word in _split(data, count)]


def _no_argument() -> list[str]:
    raise _ViolationError("a command has too few or too many arguments")


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

_UINT32 = struct.Struct("!I")
_WANTED_OPTIONS = struct.Struct("!III")


class MacroStage(IntEnum):
    """The stages at which a filter may ask for macros (``SMFIM_``)."""

    CONNECT = 0
    HELO = 1
    ENVFROM = 2
    ENVRCPT = 3
    DATA = 4
    EOM = 5
    EOH = 6


def _frame(command: bytes, *data: bytes) -> bytes:
    content = b"".join((command, *data))
    return _UINT32.pack(len(content)) + content


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


def negotiation(options: MilterOptions, macros: Mapping[MacroStage, str] | None = None) -> bytes:
    """Return what the filter agrees on, and the macros that it wants by stage; these need ``SETSYMLIST``."""
    wanted = (_UINT32.pack(stage) + _text(names) for stage, names in (macros or {}).items())
    return _frame(b"O", _WANTED_OPTIONS.pack(options.version, options.actions, options.steps), *wanted)


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
    return _frame(b"i", _UINT32.pack(index), _text(name), _text(value))


def change_header(index: int, name: str, value: bytes | None) -> bytes:
    """Replace the value of the ``index``-th field of this name, from 1 on; None deletes the field.

    The index counts the fields as the filter got them. ``value`` is as in ``insert_header``; an empty one deletes
    the field, too.
    """
    return _frame(b"m", _UINT32.pack(index), _text(name), _string(value or b""))


def add_recipient(recipient: str) -> bytes:
    """Add a recipient, with its angle brackets."""
    return _frame(b"+", _text(recipient))


def delete_recipient(recipient: str) -> bytes:
    """Delete a recipient, as it came in ``MilterRecipient``."""
    return _frame(b"-", _text(recipient))


def hold(reason: str) -> bytes:
    """Hold the message in the mail server's queue; the reason is for its administrator."""
    return _frame(b"q", _text(reason))
