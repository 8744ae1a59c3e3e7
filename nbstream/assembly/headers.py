"""How messages are read and what is done to their header, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.assembly.filter import message_limits
from nbstream.policy.field_templates import FieldTemplate
from nbstream.policy.header_policy import HeaderPolicy
from nbstream.policy.incoming_message import MessageReader
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.config import Settings


def make_header_policy(settings: Settings) -> HeaderPolicy:
    """Return what is done to the header of checked mail."""
    headers = settings.headers
    return HeaderPolicy(
        settings.model.name,
        shows_clues=headers.clues,
        own_field=headers.own_field,
        templates=tuple(
            FieldTemplate(field.name, field.value, frozenset(map(Verdict, field.verdicts)))
            for field in headers.fields
        ),
        removals=headers.removals,
        subject_tag=headers.subject_tag or "",
        observes=headers.mode == "observe",
    )


def make_message_reader(settings: Settings) -> MessageReader:
    """Return what makes messages of bytes, the same for every way in."""
    listeners = settings.listeners
    marks_mail = any((listeners.smtp, listeners.lmtp, listeners.milter))
    return MessageReader(message_limits(settings), make_header_policy(settings).marks, marks_mail)
