"""Clients that say fixed things to a listener, and return what was said and heard."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from tests.harness import milter_frames
from tests.harness.daemon import DEADLINE_SECONDS


@dataclass(frozen=True)
class Transcript:
    """A session: its name, and lines of what was said and heard."""

    name: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The session as it stands in a recording."""
        lines = [f"=== {self.name}"]
        for line, group in itertools.groupby(self.lines):
            count = sum(1 for _ in group)
            lines.append(line if count == 1 else f"{line} ({count} times)")
        return "".join(f"{line}\n" for line in lines)


def shown(direction: str, data: bytes) -> list[str]:
    """Return ``data`` line by line, with what is not printable ASCII escaped."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
        ends = [rb"\n"] * len(lines)
    else:
        ends = [rb"\n"] * (len(lines) - 1) + [b""]
    return [f"{direction} {_escaped(line)}{end.decode()}" for line, end in zip(lines, ends, strict=True)]


def _escaped(line: bytes) -> str:
    return line.decode("latin-1").encode("unicode_escape").decode()


def open_socket(address: str) -> socket.socket:
    """Connect to an address as the log names it."""
    if address.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(DEADLINE_SECONDS)
        client.connect(address.removeprefix("unix:"))
        return client
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), DEADLINE_SECONDS)


def until_closed(client: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection."""
    data = b""
    try:
        while piece := client.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def one_request(address: str, name: str, request: bytes, *, closes: bool = False) -> Transcript:
    """Send a request, and read to the end of the connection; with ``closes`` our side is closed first."""
    with open_socket(address) as client:
        client.sendall(request)
        if closes:
            client.shutdown(socket.SHUT_WR)
        answer = until_closed(client)
    return Transcript(name, (*shown(">", request), *shown("<", answer)))


@dataclass(frozen=True)
class Content:
    """What follows DATA, where it was allowed; with ``per_recipient`` each accepted recipient gets a reply."""

    data: bytes
    per_recipient: bool = False


def smtp_session(address: str, name: str, steps: Iterable[bytes | Content]) -> Transcript:
    """Send each step when the replies to the one before are complete."""
    lines: list[str] = []
    recipients = 0
    with open_socket(address) as client, client.makefile("rb") as replies:
        lines += _reply(replies)
        for step in steps:
            if isinstance(step, Content) and not lines[-1].startswith("< 354"):
                continue
            data = step.data if isinstance(step, Content) else step
            client.sendall(data)
            lines += shown(">", data)
            for _ in range(recipients if isinstance(step, Content) and step.per_recipient else 1):
                lines += _reply(replies)
            recipients += data.startswith(b"RCPT ") and lines[-1].startswith("< 250")
    return Transcript(name, tuple(lines))


def _reply(replies: BufferedReader) -> list[str]:
    lines: list[str] = []
    while line := replies.readline():
        lines += shown("<", line)
        if line[3:4] != b"-":
            return lines
    return [*lines, "< (closed)"]


def milter_session(address: str, name: str, frames: Iterable[bytes], finals: bytes) -> Transcript:
    """Send all frames; read replies until one whose command is in ``finals`` came for each END, then close."""
    lines: list[str] = []
    with open_socket(address) as client:
        for frame in frames:
            client.sendall(frame)
            lines += [f"> {frame[4:5].decode()} {_escaped(frame[5:])}"]
            if frame[4:5] in {b"O", b"E"}:
                while True:
                    (size,) = struct.unpack("!I", _exactly(client, 4))
                    (reply,) = milter_frames.parse_replies(struct.pack("!I", size) + _exactly(client, size))
                    lines += [f"< {reply.command.decode()} {_escaped(reply.data)}"]
                    if reply.command in finals:
                        break
    return Transcript(name, tuple(lines))


def _exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        assert piece, "closed within a reply"
        data += piece
    return data


def delivered(folder: Path) -> list[Transcript]:
    """Return the messages of a Maildir, each as a transcript, in the order of their content."""
    contents = sorted(file.read_bytes() for file in folder.iterdir()) if folder.is_dir() else []
    return [
        Transcript(f"delivered {number}", tuple(shown("|", raw))) for number, raw in enumerate(contents, start=1)
    ]
