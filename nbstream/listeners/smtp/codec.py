"""SMTP without I/O: the arguments of MAIL, RCPT and XFORWARD, and the content of DATA.

Rules: parameters keep their case and their bytes, because ENVID and ORCPT need both. Unknown parameters pass: the
next hop may refuse them. An address passes unchanged: this is a relay, and the next hop knows the addresses.
"""

from __future__ import annotations

import logging
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from nbstream.mail.lines import ContentBuffer, normalize_line_ends, replace_leading_dots
from nbstream.server import smtp_replies
from nbstream.server.limits import Reservation

if TYPE_CHECKING:
    from nbstream.delivery.next_hop import SmtpReply
    from nbstream.server.limits import BytesInFlight, ListenerLimits


# <...>, where a quoted local part may contain ">" and spaces (RFC 5321 4.1.2); old clients omit the brackets. Each
# quotation mark has a second one: else what the next hop gets in brackets would be no path. No part gives back
# what it took ("++"): nothing else would match, and one character at a time costs three times as much.
_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
_PATH = re.compile(
    rf'\s*(?:<((?:{_QUOTED}|[^">]++)*+)>|((?:{_QUOTED}|[^\s<>"]++)++))(?:\s+(\S.*))?\s*\Z', re.DOTALL
)
_ADDRESS = re.compile(rf'(?:{_QUOTED}|[^">]++)*+', re.DOTALL)
_PARAMETER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?:=[^\s=\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*)?")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_UNKNOWN_VALUES = frozenset({"[UNAVAILABLE]", "[TEMPUNAVAIL]"})
# What RFC 3461 4 encodes is taken as it is too, but for control characters: Postfix sends some of it unencoded.
_XTEXT = re.compile(r"(?:\+[0-9A-Fa-f]{2}|[^\x00-\x20\x7f+])*")
_XTEXT_CODE = re.compile(r"\+([0-9A-Fa-f]{2})")
_MAX_VALUE_CHARACTERS = 255

XFORWARD_ATTRIBUTES = ("NAME", "ADDR", "PORT", "PROTO", "HELO", "IDENT", "SOURCE")
"""The attributes of a client that a mail server may name by XFORWARD."""


def parse_path(keyword: str, argument: str | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the address and the parameters in ``FROM:<a@b> SIZE=1`` (keyword ``FROM``), or None for bad syntax.

    The null sender ``<>`` is the empty string. A source route (``<@a,@b:c@d>``, RFC 5321 C) loses its route.
    """
    if argument is None or argument[: len(keyword) + 1].upper() != keyword + ":":
        return None
    match = _PATH.match(argument[len(keyword) + 1 :])
    if match is None:
        return None
    address = match[2] if match[1] is None else match[1]
    if address.startswith("@") and ":" in address:
        address = address.partition(":")[2]
    parameters = tuple((match[3] or "").split())
    if _CONTROL_CHARACTER.search(address) or not _ADDRESS.fullmatch(address):
        return None
    if not all(map(_PARAMETER.fullmatch, parameters)):
        return None
    return address, parameters


def declared_size(parameters: tuple[str, ...]) -> int | None:
    """Return the value of ``SIZE=`` (RFC 1870) among the parameters of MAIL, or None where there is no number."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.upper() == "SIZE" and value.isdecimal() and len(value) <= 20:
            return int(value)
    return None


def parse_xforward(argument: str | None) -> dict[str, str] | None:
    """Return the attributes in Postfix's ``XFORWARD NAME=value ...``, by their names in upper case.

    A value is decoded from xtext (RFC 3461 4), and empty where Postfix does not know it. ``ADDR`` is an address in
    its canonical form. None is bad syntax, and also an attribute that is not in ``XFORWARD_ATTRIBUTES``.
    """
    attributes: dict[str, str] = {}
    for part in (argument or "").split():
        name, equals, encoded = part.partition("=")
        name = name.upper()
        value = "" if encoded.upper() in _UNKNOWN_VALUES else _decode_xtext(encoded)
        if not equals or name not in XFORWARD_ATTRIBUTES or value is None or len(value) > _MAX_VALUE_CHARACTERS:
            return None
        if name == "ADDR" and value:
            value = _canonical_address(value)
            if value is None:
                return None
        attributes[name] = value
    return attributes or None


def _decode_xtext(text: str) -> str | None:
    if not _XTEXT.fullmatch(text):
        return None
    return _XTEXT_CODE.sub(lambda code: chr(int(code[1], 16)), text)


def _canonical_address(value: str) -> str | None:
    try:
        address = ip_address(value[len("IPV6:") :] if value.upper().startswith("IPV6:") else value)
    except ValueError:
        return None
    return None if getattr(address, "scope_id", None) else str(address)


def remove_dot_stuffing(data: bytes) -> bytes:
    """Return ``data`` with the leading dot removed from each line but the first one (RFC 5321 4.5.2)."""
    return replace_leading_dots(data, b"")


# The content of DATA: bytes from the wire become the message, bounded and rewritten while they come.
#
# Rules: the dots of dot-stuffing are removed, a lone CR or LF becomes CRLF, and the final dot is left out. The
# message is the same wherever the bytes are cut into chunks. Each chunk is rewritten when it comes, so that
# nothing is left to do at the end: the event loop must never stand for long. What is counted is the message as it
# is held.

_log = logging.getLogger(__name__)

DATA_END = b"\r\n.\r\n"
"""The end of DATA. Nothing else ends it (RFC 5321 4.1.1.4)."""

_LAST_LINE = b".\r\n"


class IncomingContent:
    """A message of at most ``limit`` bytes that comes in; ``problem`` is the reply once it is refused."""

    def __init__(self, limits: ListenerLimits, bytes_in_flight: BytesInFlight) -> None:
        self.problem: SmtpReply | None = None
        self._limits = limits
        self._size = 0
        self._reservation = Reservation(bytes_in_flight)
        self._content = ContentBuffer()
        self._unfinished_bytes = b""
        self._has_begun = False

    @property
    def exceeds_read_limit(self) -> bool:
        """Whether so much has come that the end is not waited for any more."""
        return self._size > self._limits.max_discarded_bytes

    def add(self, chunk: bytes, *, last: bool) -> None:
        """Add the next bytes.

        The first chunk begins with the CRLF before the message, and the ``last`` one ends with ``DATA_END``.
        """
        self._size += len(chunk)
        if self.problem:
            return
        if self._size - len(DATA_END) > self._limits.max_message_bytes:
            self._refuse(smtp_replies.MESSAGE_TOO_BIG)
        elif self._reserve(len(chunk)):
            data = self._unfinished_bytes + chunk
            end = len(data) - (len(_LAST_LINE) if last else _unfinished_length(data))
            self._unfinished_bytes = data[end:]
            rewritten = normalize_line_ends(remove_dot_stuffing(data[:end]))
            if end and self._reserve(max(0, len(rewritten) - end)):
                self._content.append(rewritten if self._has_begun else memoryview(rewritten)[2:])
                self._has_begun = True

    def content(self) -> bytes:
        """Return the whole message, after its last chunk was added, and forget it."""
        return self._content.take()

    def release(self) -> None:
        """Give back the bytes that are reserved for the message."""
        self._reservation.release()

    def _reserve(self, size: int) -> bool:
        """Reserve so many bytes more and return True, or refuse the message."""
        if not self._reservation.add(size):
            self._refuse(smtp_replies.TOO_MANY_BYTES_IN_FLIGHT)
            return False
        return True

    def _refuse(self, problem: SmtpReply) -> None:
        _log.warning("a message was refused: %s", problem)
        self.problem = problem
        self.release()
        self._content = ContentBuffer()


def _unfinished_length(data: bytes) -> int:
    """Return how many bytes at the end may begin a CRLF, or a CRLF with a dot; they wait for the next chunk."""
    return 2 if data.endswith(b"\r\n") else 1 if data.endswith(b"\r") else 0
