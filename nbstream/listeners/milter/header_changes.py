"""Edits of a header as the milter protocol has them: fields by name and index, and fields that are inserted.

Rules: a field is deleted by its index among those of its name, the last one first: then the index of none of the
others changes. The new fields go below the Received field that the mail server itself puts on top, and which the
filter never sees. So a message that is taught later is the one that was checked: what stands above our fields came
after the check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.wire.milter_replies import ChangeHeader, InsertHeader

if TYPE_CHECKING:
    from nbstream.mail.header_edits import HeaderEdits
    from nbstream.mail.subject_tag import TaggedSubject

MAX_DELETED_FIELDS = 1000
"""No message has so many. Postfix reads its header anew for each of them, so 100,000 would stop it for minutes."""

_BELOW_OWN_RECEIVED = 1


def header_changes(
    edits: HeaderEdits, field_names: bytes, subject: TaggedSubject | None = None, *, has_leading_space: bool
) -> list[InsertHeader | ChangeHeader] | None:
    """Return what changes a header by ``edits``, in the order in which it has to be sent.

    ``field_names`` are those of ``MilterMessage.take_field_names``, and ``subject`` is the Subject with its tag
    where it changes. None where more than ``MAX_DELETED_FIELDS``
    would have to be deleted.
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
    return [*deleted, *inserted, *_subject_changes(subject, has_leading_space=has_leading_space)]


def _subject_changes(
    subject: TaggedSubject | None, *, has_leading_space: bool
) -> list[InsertHeader | ChangeHeader]:
    if subject is None:
        return []
    value = subject.value.replace(b"\r\n", b"\n")
    if not has_leading_space:
        value = value.removeprefix(b" ")
    if subject.is_new:
        return [InsertHeader(_BELOW_OWN_RECEIVED, "Subject", value.decode("ascii"))]
    return [ChangeHeader(1, "Subject", value)]
