"""Edits of a header as the milter protocol has them: fields by name and index, and fields that are inserted.

Rules: a field is deleted by its index among those of its name, the last one first: then the index of none of the
others changes. The new fields go below the Received field that the mail server itself puts on top, and which the
filter never sees. So a message that is taught later is the one that was checked: what stands above our fields came
after the check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.mail.subject_tag import tag_as_value, tagged_value
from nbstream.wire.milter_replies import ChangeHeader, InsertHeader

if TYPE_CHECKING:
    from nbstream.listeners.milter.incoming_message import MilterSubject
    from nbstream.mail.header_edits import HeaderEdits

MAX_DELETED_FIELDS = 1000
"""No message has so many. Postfix reads its header anew for each of them, so 100,000 would stop it for minutes."""

_BELOW_OWN_RECEIVED = 1


def header_changes(
    edits: HeaderEdits, field_names: bytes, *, has_leading_space: bool
) -> list[InsertHeader | ChangeHeader] | None:
    """Return what changes a header by ``edits``, in the order in which it has to be sent.

    ``field_names`` are those of ``MilterMessage.take_field_names``. None where more than ``MAX_DELETED_FIELDS``
    would have to be deleted. The Subject is for ``subject_change``.
    """
    counts = {name: field_names.count(b"\0%s\0" % name.lower().encode("ascii")) for name in edits.removed_names}
    if sum(counts.values()) > MAX_DELETED_FIELDS:
        return None
    deleted = [ChangeHeader(index, name, None) for name, count in counts.items() for index in range(count, 0, -1)]
    space = " " if has_leading_space else ""
    inserted = [
        InsertHeader(_BELOW_OWN_RECEIVED, name, space + value.replace("\r\n", "\n"))
        for name, value in reversed(edits.added)
    ]
    return [*deleted, *inserted]


def subject_change(
    subject: MilterSubject | None, tag: str, *, has_leading_space: bool
) -> InsertHeader | ChangeHeader | None:
    """Return what puts the tag before the first Subject, which the message may lack; None where it stays."""
    if subject is None:
        space = " " if has_leading_space else ""
        return InsertHeader(_BELOW_OWN_RECEIVED, "Subject", space + tag_as_value(tag).decode("ascii"))
    tagged = tagged_value(subject.value, tag)
    if tagged == subject.value:
        return None
    value = tagged.replace(b"\r\n", b"\n")
    # The name as it is written: messages are known by it too.
    return ChangeHeader(1, subject.name, value if has_leading_space else value.removeprefix(b" "))
