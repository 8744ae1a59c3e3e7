"""The envelope of a checked message: from whom to whom, through which listener, its subject, and what was done.

Rules: what a listener does not know is not invented, but None or empty. All texts come from outside and may be
anything; each is cut to a length, and of many recipients the first ones are kept. The header is read when the
envelope is built, which is not while the message is being checked: until then the beginning of the message is
kept, and nothing else of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.mail import header_fields
from nbstream.mail.encoded_words import decode_encoded_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.mail.message import Message

MAX_RECIPIENTS = 10
"""How many recipients are kept."""

MAX_ADDRESS_LENGTH = 320
"""The longest address: 64 characters, the @, and 255 characters (RFC 5321 4.5.3.1)."""

MAX_FIELD_LENGTH = 256

MAX_HEAD_BYTES = 32 * 1024
"""How much of the beginning of a message is searched for its subject and sender."""

_MAX_FIELD_BYTES = 16 * MAX_FIELD_LENGTH  # an encoded word of 75 bytes may have no more than 11 characters


class RememberedEnvelope(NamedTuple):
    """The envelope of a checked message, and what was done with it.

    ``sender`` is None where it is not known, and empty for the null sender. ``recipients`` are at most
    ``MAX_RECIPIENTS`` of ``recipient_count``; a row that is read has those of former checks too. ``subject`` and
    ``header_from``, what people know as From, are decoded, and None where the message has none. ``action`` has the
    kinds of the actions that were taken, the mildest first, and is empty where a program asked that acts itself.
    """

    listener: str
    sender: str | None = None
    recipients: tuple[str, ...] = ()
    recipient_count: int = 0
    subject: str | None = None
    action: str = ""
    header_from: str | None = None


BuildEnvelope: TypeAlias = "Callable[[], RememberedEnvelope]"
"""Builds the envelope of a check, once the check is decided."""


def envelope_builder(
    listener: str, sender: str | None, recipients: Sequence[str], message: Message, action: str = ""
) -> BuildEnvelope:
    """Return a function that builds the envelope of a message, and then reads its header; addresses are cut now.

    Until then it keeps the beginning of the message, which is no copy of most messages.
    """
    return partial(
        _read_envelope,
        listener,
        None if sender is None else sender[:MAX_ADDRESS_LENGTH],
        tuple([recipient[:MAX_ADDRESS_LENGTH] for recipient in recipients[:MAX_RECIPIENTS]]),
        len(recipients),
        action,
        b"" if message.is_bare_text else message.raw[:MAX_HEAD_BYTES],
    )


def _read_envelope(
    listener: str, sender: str | None, recipients: tuple[str, ...], recipient_count: int, action: str, head: bytes
) -> RememberedEnvelope:
    end = header_fields.body_offset(head)
    subject, header_from = _read_field(head, end, "subject"), _read_field(head, end, "from")
    return RememberedEnvelope(listener, sender, recipients, recipient_count, subject, action, header_from)


def _read_field(head: bytes, end: int, name: str) -> str | None:
    """Return the decoded text of a field in the header ``head[:end]``, at most 256 characters."""
    field = header_fields.find_field(head, end, name)
    return decode_encoded_words(field.value[:_MAX_FIELD_BYTES])[:MAX_FIELD_LENGTH] if field else None
