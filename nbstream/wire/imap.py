"""The part of IMAP4rev1 (RFC 3501) that reads folders, without I/O: what a server sends, and what a client asks.

Rules: the responses do not depend on how the bytes are cut into pieces. A response has a limit in bytes, which
also holds for what it announces: a literal is refused before its first byte. Its literals are limited in number.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

MAX_UID = (1 << 32) - 1
MAX_LITERALS = 16  # of a response; what is asked for has one

_LITERAL = re.compile(rb"\{([0-9]{1,10})\}\Z")
_UID_VALIDITY = re.compile(r"\* OK \[UIDVALIDITY ([0-9]{1,10})\]", re.IGNORECASE)
# Possessive: to go back into 16 MB of numbers, the pattern would keep 1.5 GB.
_SEARCH = re.compile(r"\* SEARCH((?: ++[0-9]{1,10}+)*+) *+", re.IGNORECASE)
_FETCH = re.compile(r"\* [0-9]{1,10} FETCH \(", re.IGNORECASE)
_UID_ITEM = re.compile(r"[( ]UID ([0-9]{1,10})(?=[ )])", re.IGNORECASE)
_SIZE_ITEM = re.compile(r"[( ]RFC822\.SIZE ([0-9]{1,19})(?=[ )])", re.IGNORECASE)
_BODY_END = b"BODY[] {"
_NOT_QUOTABLE = re.compile(r"[^ -~]")


class ImapProtocolError(ValueError):
    """What came is no response, or one that is larger than is allowed."""


@dataclass(frozen=True, slots=True)
class ImapResponse:
    """One response: its text, and the literals within it, each after the text that announces it.

    ``texts`` has one entry more than ``literals``; none has a line end.
    """

    texts: tuple[bytes, ...]
    literals: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(map(len, self.texts)) + sum(map(len, self.literals))

    @property
    def text(self) -> str:
        """The text without the literals."""
        return b" ".join(self.texts).decode("latin-1")

    @property
    def tag(self) -> str:
        """The tag of the command that the response ends; ``*`` and ``+`` stand for those in between."""
        return self.text.partition(" ")[0]

    @property
    def is_ok(self) -> bool:
        """Whether a response that ends a command says that it was carried out."""
        return self.text.partition(" ")[2].upper().startswith("OK")


@dataclass(frozen=True, slots=True)
class FetchedMessage:
    """What a FETCH response says of one message: its UID, its size in bytes, its content; None is not there."""

    uid: int
    size: int | None = None
    content: bytes | None = None


class ImapResponseParser:
    """Takes the bytes of a server; each response has at most ``max_response_bytes``."""

    def __init__(self) -> None:
        self.max_response_bytes = 1 << 16
        self._buffer = bytearray()
        self._searched_bytes = 0
        self._texts: list[bytes] = []
        self._literals: list[bytes] = []
        self._literal_size: int | None = None
        self._size = 0  # of the parts that are complete, and of the literal that is announced

    @property
    def is_between_responses(self) -> bool:
        """Whether no byte waits for the rest of its response."""
        return not self._buffer and not self._texts

    def feed(self, data: bytes) -> Iterator[ImapResponse]:
        """Take bytes, and yield the responses that they complete. Raises ``ImapProtocolError``."""
        self._buffer += data
        while self._advance():
            if self._literal_size is None:
                yield ImapResponse(tuple(self._texts), tuple(self._literals))
                self._texts, self._literals, self._size = [], [], 0

    def _advance(self) -> bool:
        """Take a literal, or a line, from the buffer, if it is whole."""
        if self._literal_size is not None:
            if len(self._buffer) < self._literal_size:
                return False
            self._literals.append(self._take(self._literal_size))
            self._literal_size = None
        end = self._buffer.find(b"\n", self._searched_bytes)
        self._require_room(end if end >= 0 else len(self._buffer))
        if end < 0:
            self._searched_bytes = len(self._buffer)
            return False
        line = self._take(end + 1).removesuffix(b"\n").removesuffix(b"\r")
        self._searched_bytes = 0
        self._texts.append(line)
        self._size += len(line)
        if literal := _LITERAL.search(line):
            self._literal_size = int(literal[1])
            self._require_room(self._literal_size)
            self._size += self._literal_size
            if len(self._literals) == MAX_LITERALS:
                raise ImapProtocolError(f"a response has more than {MAX_LITERALS} literals")
        return True

    def _require_room(self, size: int) -> None:
        """Raise ``ImapProtocolError`` if the response has no room for a part of this size."""
        if self._size + size > self.max_response_bytes:
            raise ImapProtocolError(f"a response is larger than {self.max_response_bytes} bytes")

    def _take(self, size: int) -> bytes:
        """Take bytes from the beginning of the buffer."""
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return taken


def quote(text: str) -> str:
    """Return a quoted string. Raises ValueError for text that is not printable ASCII."""
    if _NOT_QUOTABLE.search(text):
        raise ValueError("only printable ASCII can be quoted")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def encode_mailbox_name(name: str) -> str:
    """Return the name of a folder in modified UTF-7 (RFC 3501, 5.1.3)."""

    def shift(match: re.Match[str]) -> str:
        encoded = base64.b64encode(match[0].encode("utf-16-be")).decode("ascii")
        return "&" + encoded.rstrip("=").replace("/", ",") + "-"

    return re.sub(r"[^ -~]+", shift, name.replace("&", "&-"))


def plain_response(user: str, password: str) -> str:
    """Return what a client answers to AUTHENTICATE PLAIN (RFC 4616)."""
    return base64.b64encode(f"\0{user}\0{password}".encode()).decode("ascii")


def uid_set(uids: Collection[int]) -> str:
    """Return a set of UIDs as commands have it."""
    return ",".join(map(str, uids))


def parse_uid_validity(response: ImapResponse) -> int | None:
    """Return the UIDVALIDITY that a response to EXAMINE tells, or None where it tells something else."""
    match = _UID_VALIDITY.match(response.text)
    return int(match[1]) if match else None


def parse_search(response: ImapResponse) -> tuple[int, ...]:
    """Return the UIDs in a response to UID SEARCH; none where it is another one."""
    match = _SEARCH.fullmatch(response.text)
    return tuple(uid for uid in map(int, match[1].split()) if 0 < uid <= MAX_UID) if match else ()


def parse_fetch(response: ImapResponse) -> FetchedMessage | None:
    """Return what a response to UID FETCH says of a message, or None where it is another one."""
    text = response.text
    uid = _UID_ITEM.search(text)
    if not _FETCH.match(text) or uid is None:
        return None
    size = _SIZE_ITEM.search(text)
    content = None
    for before, literal in zip(response.texts, response.literals, strict=False):
        if before[: before.rfind(b"{") + 1].upper().endswith(_BODY_END):
            content = literal
    return FetchedMessage(int(uid[1]), int(size[1]) if size else None, content)
