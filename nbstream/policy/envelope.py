"""The envelope of a checked message: from whom to whom, through which listener, its subject, and what was done.

Rules: what a listener does not know is not invented, but None or empty. All texts come from outside and may be
anything; each is cut to a length, and of many recipients the first ones are kept. The header is read when the
envelope is built, which is not while the message is being checked: until then the beginning of the message is
kept, and nothing else of it.
"""

from __future__ import annotations

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

    @classmethod
    def of(
        cls, listener: str, sender: str | None, recipients: Sequence[str], action: str = ""
    ) -> RememberedEnvelope:
        """Return the envelope of a message whose header is not read yet; each address is cut."""
        return cls(
            listener,
            None if sender is None else sender[:MAX_ADDRESS_LENGTH],
            tuple([recipient[:MAX_ADDRESS_LENGTH] for recipient in recipients[:MAX_RECIPIENTS]]),
            len(recipients),
            action=action,
        )

    def with_header(self, head: bytes) -> RememberedEnvelope:
        """Return the envelope with what the message says that begins with ``head``."""
        return self._replace(subject=read_field(head, "subject"), header_from=read_field(head, "from"))


BuildEnvelope: TypeAlias = "Callable[[], RememberedEnvelope]"
"""Builds the envelope of a check, once the check is decided."""


def head_of(message: Message) -> bytes:
    """Return the beginning of a message in which its fields are looked for; that is no copy of most messages."""
    return b"" if message.is_bare_text else message.raw[:MAX_HEAD_BYTES]


def read_field(head: bytes, name: str) -> str | None:
    """Return the decoded text of a field of the message that begins with ``head``, at most 256 characters."""
    field = header_fields.find_field(head, header_fields.body_offset(head), name)
    return decode_encoded_words(field.value[:_MAX_FIELD_BYTES])[:MAX_FIELD_LENGTH] if field else None
