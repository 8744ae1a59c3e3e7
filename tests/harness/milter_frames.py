"""The mail server's side of the milter protocol: frames of its commands, and the replies of a filter read back."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from nbstream.listeners.milter.codec import MilterActions, MilterSteps

ALL_ACTIONS = MilterActions(0x1FF)
ALL_STEPS = MilterSteps(0x1FFFFF)
SENDMAIL_8_12 = (2, MilterActions(0x1F), MilterSteps(0x7F))
"""Version, actions and steps of an old mail server: each step needs its reply, and no message can be held."""


@dataclass(frozen=True)
class Reply:
    """One reply: its command and its data."""

    command: bytes
    data: bytes = b""

    @property
    def words(self) -> list[bytes]:
        """The strings of the data, behind an index where the command has one."""
        data = self.data[4:] if self.command in {b"i", b"m"} else self.data
        return data.removesuffix(b"\0").split(b"\0")

    @property
    def index(self) -> int:
        """The index of a change of header fields."""
        return int(struct.unpack("!I", self.data[:4])[0])


def frame(command: bytes, *data: bytes) -> bytes:
    """A frame."""
    content = b"".join(data)
    return struct.pack("!I", 1 + len(content)) + command + content


def strings(*words: bytes) -> bytes:
    """Strings, each with its NUL."""
    return b"".join(word + b"\0" for word in words)


def negotiation(version: int = 6, actions: int = ALL_ACTIONS, steps: int = ALL_STEPS) -> bytes:
    """The offer of a mail server."""
    return frame(b"O", struct.pack("!III", version, actions, steps))


def macros(stage: bytes, values: Mapping[str, str]) -> bytes:
    """Macros for a command."""
    return frame(b"D", stage, strings(*(word.encode() for pair in values.items() for word in pair)))


def connect(address: str = "192.0.2.7", host: str = "client.example") -> bytes:
    """An SMTP client at an IP address connected."""
    family = b"6" if ":" in address else b"4"
    return frame(b"C", strings(host.encode()), family, struct.pack("!H", 40000), strings(address.encode()))


def mail(sender: str = "<someone@elsewhere.example>", *parameters: str) -> bytes:
    """MAIL."""
    return frame(b"M", strings(*(word.encode() for word in (sender, *parameters))))


def rcpt(recipient: str = "<ann@example.org>", *parameters: str) -> bytes:
    """RCPT."""
    return frame(b"R", strings(*(word.encode() for word in (recipient, *parameters))))


def header(name: bytes, value: bytes) -> bytes:
    """A header field."""
    return frame(b"L", strings(name, value))


def content(message: bytes, chunk_bytes: int = 65535) -> list[bytes]:
    """The header fields and the body of a message with CRLF line ends, as Postfix sends them, without the end."""
    head, _, body = message.partition(b"\r\n\r\n")
    fields = head.replace(b"\r\n ", b"\n ").replace(b"\r\n\t", b"\n\t").split(b"\r\n")
    named = (line.partition(b":") for line in fields)
    chunks = (body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes))
    return [*(header(name, value) for name, _, value in named), *(frame(b"B", chunk) for chunk in chunks)]


END = frame(b"E")
ABORT = frame(b"A")
QUIT = frame(b"Q")
QUIT_NC = frame(b"K")


def parse_replies(data: bytes) -> list[Reply]:
    """The replies in ``data``, which must all be complete."""
    replies = []
    while data:
        (length,) = struct.unpack("!I", data[:4])
        assert 1 <= length <= len(data) - 4, data
        replies.append(Reply(data[4:5], data[5 : 4 + length]))
        data = data[4 + length :]
    return replies
