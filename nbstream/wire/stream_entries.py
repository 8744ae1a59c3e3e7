"""The stream door without I/O: what an entry asks for, and what is answered. Fields in, fields out.

Rules: an entry has ``raw`` (a message with its header) or ``text`` (a text that is none), and may have ``id``,
``label``, ``from`` and ``to``. One that has anything else is refused: a misspelt ``label`` would never be missed.
No outside bytes enter an answer but those of ``id``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.filter.results import LessonOutcome

if TYPE_CHECKING:
    from nbstream.filter import Check

MAX_ID_BYTES = 256
_MAX_ADDRESS_BYTES = 1000

ENTRY_FIELDS = {
    "raw": "A message, header and body, as it came. Verdict fields of nbstream in it are ignored.",
    "text": "Instead of `raw`: a text that is no mail. Nothing in it is read as a header field.",
    "id": f"Any text of at most {MAX_ID_BYTES} bytes, which comes back with the answer. "
    "Without it the stream id of the entry does.",
    "label": "`spam` or `ham`: the entry is learned, as feedback is. "
    "The same text or message with the other label is relearned.",
    "from": f"Who adds the entry, for `nbstream history --actor`; at most {_MAX_ADDRESS_BYTES} bytes.",
    "to": f"The recipient whose thresholds hold where `recipients` has rules; at most {_MAX_ADDRESS_BYTES} bytes. "
    "No action is taken.",
}
"""The fields that an entry may have, with their meaning as Markdown."""

ANSWER_FIELDS = {
    "entry": "The stream id of the entry, which XADD returned.",
    "id": "The `id` of the entry, or its stream id where it has none.",
    "verdict": "`ham`, `unsure`, `spam` or `reject`. Of what was learned it is the verdict afterwards.",
    "probability": "P(spam), with six digits.",
    "reason": "Why the verdict was given.",
    "key": "The id of the message for `nbstream explain` and `nbstream learn spam --id`.",
    "outcome": "Only of an entry with a `label`: `learned`, `relearned` or `already`.",
    "error": "Why there is no verdict; then `entry` and `id` are the only other fields. "
    "A label that can never be learned is an error too.",
}
"""The fields that an answer may have, with their meaning as Markdown."""

_REQUEST_FIELDS = frozenset(name.encode() for name in ENTRY_FIELDS)


class UnreadableEntry(ValueError):
    """An entry that asks for nothing that can be done; the text says why and goes to whoever added it."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What is to be checked, or learned as ``label``.

    ``raw`` is a message as it came, ``text`` a text that is none; one of the two is None. ``sender`` says who
    asks, ``recipient`` whose rules decide; both are empty where nothing is said.
    """

    raw: bytes | None
    text: str | None
    label: str | None = None
    sender: str = ""
    recipient: str = ""


def read_entry(fields: Mapping[bytes, bytes], max_bytes: int) -> StreamRequest:
    """What an entry asks for; ``max_bytes`` is how large its message may be. Raises ``UnreadableEntry``."""
    if not fields.keys() <= _REQUEST_FIELDS:
        raise UnreadableEntry(f"an entry has no other fields than {', '.join(ENTRY_FIELDS)}")
    raw, text = fields.get(b"raw"), fields.get(b"text")
    if (raw is None) == (text is None):
        raise UnreadableEntry("an entry has either raw or text")
    if len(raw or text or b"") > max_bytes:
        raise UnreadableEntry(f"the message is larger than {max_bytes} bytes")
    if len(fields.get(b"id", b"")) > MAX_ID_BYTES:
        raise UnreadableEntry(f"id is longer than {MAX_ID_BYTES} bytes")
    label = fields.get(b"label", b"").decode("utf-8", "replace") or None
    if label is not None and label not in CLASSES:
        raise UnreadableEntry(f"label must be {' or '.join(CLASSES)}")
    return StreamRequest(
        raw,
        None if text is None else text.decode("utf-8", "replace"),
        label,
        _read_address(fields, "from"),
        _read_address(fields, "to"),
    )


def _read_address(fields: Mapping[bytes, bytes], name: str) -> str:
    value = fields.get(name.encode(), b"")
    if len(value) > _MAX_ADDRESS_BYTES:
        raise UnreadableEntry(f"{name} is longer than {_MAX_ADDRESS_BYTES} bytes")
    return value.decode("utf-8", "replace")


def verdict_fields(check: Check, outcome: LessonOutcome | None = None) -> dict[str, str | bytes]:
    """The answer to what could be done; ``outcome`` says what became of its label."""
    told: dict[str, str | bytes] = {
        "verdict": str(check.verdict),
        "probability": f"{check.probability:.6f}",
        "reason": check.reason,
        "key": check.id,
    }
    return {**told, "outcome": str(outcome)} if outcome else told


def refusal_fields(why: str) -> dict[str, str | bytes]:
    """The answer to what could not be done."""
    return {"error": why}


def with_entry_ids(
    answer: Mapping[str, str | bytes], place: bytes, fields: Mapping[bytes, bytes]
) -> dict[str, str | bytes]:
    """An answer with what it belongs to: the entry's stream id, and its own id where it has one."""
    return {"entry": place, "id": (fields.get(b"id") or place)[:MAX_ID_BYTES], **answer}
