"""What an outgoing message says about the correspondents of its sender.

Rules: pure, and never raises. A message that a program answered with (RFC 3834), or that goes to very many, says
nothing of whom a person knows. A Message-ID counts where a stranger cannot guess it.
"""

from __future__ import annotations

import re
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, NamedTuple

from nbstream.mail.addresses import MAX_FIELD_BYTES, canonical_address, find_addresses
from nbstream.policy.sender_lists import read_header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.mail.header_fields import HeaderField
    from nbstream.mail.message import Message

MAX_RECIPIENTS = 50
"""A message to more of them is a mailing."""

_MAX_ID_BYTES = 4000
_MIN_LOCAL_BYTES = 12  # programs write a time, a number of the process or a random number: 16 to 60 bytes
_MESSAGE_ID = re.compile(rb"<([!-;=?A-~]{%d,200}@[!-;=?-~]{1,200})>" % _MIN_LOCAL_BYTES)
_DATE_CHARACTERS = 100


class SentMail(NamedTuple):
    """A message that ``user`` sent to ``recipients`` at a time (seconds since the epoch).

    ``message_id`` is empty where it has none that counts. Addresses are canonical.
    """

    user: str
    recipients: tuple[str, ...]
    message_id: bytes
    at: float


def read_sent(message: Message, user: str, recipients: Sequence[str], at: float) -> SentMail | None:
    """Return what a message that goes out now says; None where that is nothing."""
    fields, _ = read_header(message)
    return _sent(_first_fields(fields), user, list(map(canonical_address, recipients)), at)


def read_message(message: Message, user: str) -> SentMail | None:
    """Return what a message in the Sent folder of ``user`` says; None where that is nothing, or has no date.

    Nothing but its header is read.
    """
    fields, _ = read_header(message)
    first = _first_fields(fields)
    values = [field.value for field in fields if field.name in {"to", "cc", "bcc"}]
    at = read_date(first["date"]) if "date" in first else None
    if at is None or max(map(len, values), default=0) > MAX_FIELD_BYTES:  # the last address would be cut
        return None
    return _sent(first, user, find_addresses(values), at)


def _first_fields(fields: Sequence[HeaderField]) -> Mapping[str, HeaderField]:
    return {field.name: field for field in reversed(fields)}


def _sent(first: Mapping[str, HeaderField], user: str, recipients: Sequence[str], at: float) -> SentMail | None:
    addresses = tuple(dict.fromkeys(address for address in recipients if "@" in address))
    if _is_automatic(first) or not 0 < len(addresses) <= MAX_RECIPIENTS:
        return None
    ids = read_message_ids(first["message-id"]) if "message-id" in first else ()
    return SentMail(canonical_address(user), addresses, ids[0] if ids else b"", at)


def _is_automatic(first: Mapping[str, HeaderField]) -> bool:
    """Return whether a program wrote the message: a notice of absence, a receipt, a report."""
    submitted = first["auto-submitted"].value.lower() if "auto-submitted" in first else b"no"
    kind = first["content-type"].value.lower() if "content-type" in first else b""
    return not submitted.startswith(b"no") or kind.startswith(b"multipart/report")


def read_message_ids(field: HeaderField) -> Sequence[bytes]:
    """Return the identifiers in a field, without brackets, that a stranger cannot guess."""
    return _MESSAGE_ID.findall(field.value[-_MAX_ID_BYTES:])


def read_date(field: HeaderField) -> float | None:
    """Return the time in Date, or at the end of a Received field, in seconds since the epoch."""
    text = field.value.rpartition(b";")[2][-_DATE_CHARACTERS:].decode("ascii", "replace")
    try:
        parts = parsedate_tz(text)
        return float(mktime_tz(parts)) if parts else None
    except (ValueError, OverflowError, IndexError, TypeError):  # what a stranger wrote
        return None
