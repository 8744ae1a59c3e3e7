"""The replies of a filter to a mail server in the milter protocol; see ``milter``.

Rules: no reply can break out of its frame: a NUL ends a text, so none is written within one. At the end of a
message any number of changes may come, and then one reply that decides.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from nbstream.delivery.smtp_reply import SmtpReply
from nbstream.listeners.milter.codec import MilterOptions, encode_text

_UINT32 = struct.Struct("!I")
_OPTIONS = struct.Struct("!III")


class MacroStage(IntEnum):
    """The stages at which a filter may ask for macros (``SMFIM_``)."""

    CONNECT = 0
    HELO = 1
    ENVFROM = 2
    ENVRCPT = 3
    DATA = 4
    EOM = 5
    EOH = 6


@dataclass(frozen=True, slots=True)
class NegotiationReply:
    """What the filter agrees on, and the macros that it wants by stage, which need the action ``SETSYMLIST``."""

    options: MilterOptions
    macros: Mapping[MacroStage, str] = field(default_factory=dict)

    def render(self) -> bytes:
        """Return the frame."""
        options = self.options
        wanted = (_UINT32.pack(stage) + _text(names) for stage, names in self.macros.items())
        return _frame(b"O", _OPTIONS.pack(options.version, options.actions, options.steps), *wanted)


@dataclass(frozen=True, slots=True)
class ContinueReply:
    """Go on with the message, and accept it where this was its end."""

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"c")


@dataclass(frozen=True, slots=True)
class DiscardReply:
    """Accept the message towards its sender, and deliver it to nobody."""

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"d")


@dataclass(frozen=True, slots=True)
class SkipReply:
    """Send no more of the body. It needs the step ``SKIP``."""

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"s")


@dataclass(frozen=True, slots=True)
class ProgressReply:
    """The filter is still at work: wait longer for the reply."""

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"p")


@dataclass(frozen=True, slots=True)
class RefusalReply:
    """Refuse the message with this reply, whose code is 4xx or 5xx, and which has an enhanced status code."""

    reply: SmtpReply

    def render(self) -> bytes:
        """Return the frame. Sendmail takes the text as a format, so each percent sign is written twice."""
        return _frame(b"y", self.reply.render().replace(b"%", b"%%") + b"\0")


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """Insert a field; ``index`` 0 is above all others.

    The index counts the fields of the message as it is delivered, with the Received field of the mail server
    itself on top. ``value`` is everything behind the colon where ``HDR_LEADSPC`` was agreed on; its folds are line
    feeds.
    """

    index: int
    name: str
    value: str

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"i", _UINT32.pack(self.index), _text(self.name), _text(self.value))


@dataclass(frozen=True, slots=True)
class ChangeHeader:
    """Replace the value of the ``index``-th field of this name, from 1 on; an empty value deletes the field.

    The index counts the fields as the filter got them. ``value`` is as in ``InsertHeader``; None deletes.
    """

    index: int
    name: str
    value: bytes | None

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"m", _UINT32.pack(self.index), _text(self.name), _string(self.value or b""))


@dataclass(frozen=True, slots=True)
class AddRecipient:
    """Add a recipient, with its angle brackets."""

    recipient: str

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"+", _text(self.recipient))


@dataclass(frozen=True, slots=True)
class DeleteRecipient:
    """Delete a recipient, as it came in ``MilterRecipient``."""

    recipient: str

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"-", _text(self.recipient))


@dataclass(frozen=True, slots=True)
class QuarantineReply:
    """Hold the message in the mail server's queue; the reason is for its administrator."""

    reason: str

    def render(self) -> bytes:
        """Return the frame."""
        return _frame(b"q", _text(self.reason))


MilterChange: TypeAlias = InsertHeader | ChangeHeader | AddRecipient | DeleteRecipient | QuarantineReply
MilterDecision: TypeAlias = ContinueReply | DiscardReply | SkipReply | RefusalReply
MilterReply: TypeAlias = NegotiationReply | MilterChange | MilterDecision | ProgressReply


def _frame(command: bytes, *data: bytes) -> bytes:
    content = b"".join((command, *data))
    return _UINT32.pack(len(content)) + content


def _text(text: str) -> bytes:
    return _string(encode_text(text))


def _string(raw: bytes) -> bytes:
    return raw.replace(b"\0", b"") + b"\0"
