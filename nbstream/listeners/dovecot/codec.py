"""Dovecot's script protocol, by which a Sieve script hands a message to a unix socket: bytes in, requests out.

A client is Pigeonhole's ``pipe`` with ``sieve_pipe_socket_dir``. It sends a head and the message, and closes its
side:

VERSION <tab> script <tab> 4 <tab> 0 <LF> env_USER=ann <LF> variables of the environment, none or some
- <LF> "noreply" instead: the client did not wait for the answer; or "alarm=" and seconds argument <LF> the
  arguments of ``pipe``, none or some <LF>

Values are escaped as Dovecot does it: the byte 1 and a character stand for a tab, a line end, NUL or the byte 1.
The answer is ``+`` or ``-`` and a line feed; then the connection is closed. Version 4.0 is that of Dovecot 2.3 and
2.4: recorded from 2.3.19, and read in the source of both (lib-program-client). Version 3 has no variables.

Rule: the end of the message is the end of what the client sends. Whether the client still waits then, or is gone
and has sent half a message, is for the caller to find out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from nbstream.mail.lines import ContentBuffer
from nbstream.server.connections import printable_user

ACCEPTED = b"+\n"
"""The answer to a message that was taken."""

REFUSED = b"-\n"
"""The answer to everything else."""

MAX_HEAD_BYTES = 16 << 10
_END_OF_HEAD = b"\n\n"
_VERSION = re.compile(rb"VERSION\tscript\t[34]\t[0-9]{1,5}")
_ALARM = re.compile(rb"alarm=[0-9]{1,9}")
_ESCAPED = re.compile(rb"\x01(.)", re.DOTALL)
_ESCAPES = {b"0": b"\0", b"1": b"\x01", b"t": b"\t", b"r": b"\r", b"n": b"\n"}


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A message, with the arguments of ``pipe``; ``user`` is printable ASCII, and empty where none was sent."""

    arguments: tuple[str, ...]
    user: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScriptRefusal:
    """Why there is no request, for the log: the protocol has no room for a text."""

    text: str


ScriptEvent: TypeAlias = ScriptRequest | ScriptRefusal


class ScriptParser:
    """Takes the bytes of one connection. After a refusal all further bytes are discarded."""

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._head = bytearray()
        self._arguments: tuple[str, ...] | None = None
        self._user = ""
        self._content = ContentBuffer()
        self._refusal: ScriptRefusal | None = None

    @property
    def is_refused(self) -> bool:
        """Whether there will be no request, whatever comes."""
        return self._refusal is not None

    def refuse(self, text: str) -> None:
        """Discard what was received, and all that comes; the first refusal holds."""
        self._refusal = self._refusal or ScriptRefusal(text)
        self._head.clear()
        self._content = ContentBuffer()

    def feed(self, data: bytes) -> None:
        """Take received bytes."""
        if self._refusal:
            return
        if self._arguments is None:
            searched = max(0, len(self._head) - 1)
            self._head += data
            end = self._head.find(_END_OF_HEAD, searched, MAX_HEAD_BYTES)
            if end < 0:
                if len(self._head) >= MAX_HEAD_BYTES:
                    self.refuse("the head of the request is too long")
                return
            data = bytes(self._head[end + len(_END_OF_HEAD) :])
            head = bytes(self._head[:end])
            self._head.clear()
            if not self._read_head(head.split(b"\n")):
                return
        if len(self._content) + len(data) > self._max_message:
            self.refuse("the message is too large")
            return
        self._content.append(data)

    def end(self) -> ScriptEvent | None:
        """Return the request, or why there is none, once the client has closed its side.

        None is the answer to nothing at all: such a client only wants to see whether somebody listens.
        """
        if self._refusal:
            return self._refusal
        if self._arguments is None:
            if not self._head:
                return None
            return ScriptRefusal("the request has no head")
        return ScriptRequest(self._arguments, self._user, self._content.take())

    def _read_head(self, lines: list[bytes]) -> bool:
        """Read the lines of the head; return whether they are those of a request."""
        version, *rest = lines
        if not _VERSION.fullmatch(version):
            self.refuse("it does not begin like Dovecot's script protocol, version 3 or 4")
            return False
        while rest and rest[0].startswith(b"env_"):
            name, _, value = _unescape(rest.pop(0)).partition(b"=")
            if name == b"env_USER":
                self._user = printable_user(value)
        option = rest.pop(0) if rest else b""
        if option != b"-" and not _ALARM.fullmatch(option):
            self.refuse(
                "the client did not wait for the answer" if option == b"noreply" else "the head cannot be read"
            )
            return False
        self._arguments = tuple(_unescape(argument).decode("utf-8", "replace") for argument in rest)
        return True


def _unescape(value: bytes) -> bytes:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), value)
