"""Changes to the header of a message as data, and their application to raw bytes.

Rules: whoever decides says what changes, and each way out applies it in its own protocol. The body stays as it is,
byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from nbstream.mail import header_fields
from nbstream.mail.subject_tag import tag_as_value, tag_subject


@dataclass(frozen=True, slots=True)
class HeaderEdits:
    """What changes in the header of a message.

    ``added`` are fields as (name, value), in the order in which they go on top. A line end in a value is a fold,
    and a tab follows it. ``removed_names``: every field of these names that the message came with is removed.
    ``guard`` is the name of the empty field that a first line gets which continues no field; else it would become
    part of the last of the added ones.
    """

    added: tuple[tuple[str, str], ...] = ()
    removed_names: tuple[str, ...] = ()
    guard: str = "X-Continued"
    subject_tag: str = ""

    def after_removal(self, names: tuple[str, ...]) -> HeaderEdits:
        """Return what is left to do to a message whose fields of these names are removed already."""
        left = () if self.removed_names == names else tuple(n for n in self.removed_names if n not in names)
        return HeaderEdits(self.added, left, self.guard, self.subject_tag)


def edit_message(raw: bytes, edits: HeaderEdits) -> tuple[bytes, bytes]:
    """Return the added fields as bytes, and the rest of the message ``raw`` that goes below them.

    ``raw`` and both results have CRLF line ends. The rest is ``raw`` itself where nothing in it changes.
    """
    rest = header_fields.strip_fields(raw, edits.removed_names) if edits.removed_names else raw
    added = edits.added
    if edits.subject_tag:
        tagged = tag_subject(rest, edits.subject_tag)
        if tagged is None:
            added = (*added, ("Subject", tag_as_value(edits.subject_tag).decode("ascii")))
        else:
            rest = tagged
    return header_fields.prepend_fields(b"", added), header_fields.guard_first_line(rest, edits.guard)
