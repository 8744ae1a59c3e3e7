"""The entries of the stream listener without I/O: what an entry asks for, and the answer. Fields in, fields out.

Rules: an entry has ``raw`` (a message with its header) or ``text`` (a text that is no mail), and may have ``id``,
``label``, ``from`` and ``to``. An entry with any other field is refused: nobody would notice a misspelt ``label``.
An answer contains no bytes from outside but those of ``id``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.columns import CLASSES
from nbstream.filter.results import FeedbackOutcome

if TYPE_CHECKING:
    from nbstream.filter import Check

MAX_ID_BYTES = 256
_MAX_ADDRESS_BYTES = 1000

ENTRY_FIELDS = {
    "raw": "A message with header and body, as received. nbstream's own fields in it are ignored.",
    "text": "Instead of `raw`: text other than mail. Nothing in it is read as a header field.",
    "id": f"Any text of at most {MAX_ID_BYTES} bytes, returned with the answer. Default: the stream id of the "
    "entry.",
    "label": "`spam`, `ham` or a kind: the entry is learned as feedback. The same content with another label "
    "is relearned; with the same label nothing changes.",
    "from": f"Who adds the entry, for `nbstream history --actor`; at most {_MAX_ADDRESS_BYTES} bytes.",
    "to": f"The recipient whose thresholds apply if `recipients` has rules; at most {_MAX_ADDRESS_BYTES} bytes. "
    "No action is taken.",
}
"""The fields that an entry may have, with their meaning as Markdown."""

ANSWER_FIELDS = {
    "entry": "The stream id of the entry, which XADD returned.",
    "id": "The `id` of the entry, or its stream id where it has none.",
    "verdict": "`ham`, `unsure`, `spam` or `reject`. If the entry was learned: the verdict afterwards.",
    "probability": "P(spam), with six digits.",
    "reason": "Why the verdict was given.",
    "key": "The id of the message for `nbstream explain` and `nbstream learn spam --id`.",
    "kind": "The most probable kind of ham, where one is known.",
    "outcome": "Only for an entry with a `label`: `learned`, `relearned` or `already`.",
    "error": "Why there is no verdict; `entry` and `id` are then the only other fields. A label that can never "
    "be learned is an error, too.",
}
"""The fields that an answer may have, with their meaning as Markdown."""

_REQUEST_FIELDS = frozenset(name.encode() for name in ENTRY_FIELDS)


class UnreadableEntry(ValueError):
    """An entry that cannot be understood; its text says why, and is sent to the program that added the entry."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A message or text to check, or to learn as ``label``.

    ``raw`` is a message as it came, ``text`` is a text in UTF-8 that is no mail; one of the two is None.
    ``sender`` is who added the entry, ``recipient`` the address whose rules decide; each is empty where the entry
    does not say it.
    """

    raw: bytes | None
    text: bytes | None
    label: str | None = None
    sender: str = ""
    recipient: str = ""


def read_entry(
    fields: Mapping[bytes, bytes], max_bytes: int, class_names: Sequence[str] = CLASSES
) -> StreamRequest:
    """Return what an entry asks for: at most ``max_bytes`` of message, and a label of ``class_names``.

    Raises ``UnreadableEntry``.
    """
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
    if label is not None and label not in class_names:
        raise UnreadableEntry(f"label must be {' or '.join(class_names)}")
    return StreamRequest(
        raw,
        text,
        label,
        _read_address(fields, "from"),
        _read_address(fields, "to"),
    )


def _read_address(fields: Mapping[bytes, bytes], name: str) -> str:
    value = fields.get(name.encode(), b"")
    if len(value) > _MAX_ADDRESS_BYTES:
        raise UnreadableEntry(f"{name} is longer than {_MAX_ADDRESS_BYTES} bytes")
    return value.decode("utf-8", "replace")


def verdict_fields(check: Check, outcome: FeedbackOutcome | None = None) -> dict[str, str | bytes]:
    """Return the answer to an entry that was checked or learned; ``outcome`` is what its label did."""
    answer: dict[str, str | bytes] = {
        "verdict": str(check.verdict),
        "probability": f"{check.probability:.6f}",
        "reason": check.reason,
        "key": check.id,
    }
    if check.kind and check.kind.kind:
        answer["kind"] = check.kind.kind
    return {**answer, "outcome": str(outcome)} if outcome else answer


def refusal_fields(reason: str) -> dict[str, str | bytes]:
    """Return the answer to an entry that is refused."""
    return {"error": reason}


def with_entry_ids(
    answer: Mapping[str, str | bytes], stream_id: bytes, fields: Mapping[bytes, bytes]
) -> dict[str, str | bytes]:
    """Return the answer with both ids of its entry: the stream id, and its own ``id`` where it has one."""
    return {"entry": stream_id, "id": (fields.get(b"id") or stream_id)[:MAX_ID_BYTES], **answer}
