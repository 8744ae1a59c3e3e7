"""What people are shown of a message: some fields of its header, and its text, within limits.

Rules: HTML is reduced to the text that a reader would see, and no attachment is shown. The characters are those of
the message: whoever shows them makes them harmless, in the way that a terminal or a browser needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.tokens import html

if TYPE_CHECKING:
    from nbstream.mail.message import Message


_SHOWN_FIELDS = ("from", "to", "cc", "date", "subject")


_SHOWN_CHARACTERS = 20_000


_SHOWN_TYPES = frozenset({"text/plain", "text/html"})


_TAG = re.compile(r"<[!/?a-zA-Z][^>]*")


@dataclass(frozen=True, slots=True)
class ShownText:
    """The shown ``fields`` (name and decoded text, in their order) and the text of each part.

    ``is_cut``: the message has more text than the parts here, which have 20,000 characters at most.
    """

    fields: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]
    is_cut: bool


def shown_text(message: Message) -> ShownText:
    """Return what is shown of a message; it takes as long as parsing the message does."""
    fields = tuple(
        (field.name.capitalize(), field.text) for field in message.fields if field.name in _SHOWN_FIELDS
    )
    parts: list[str] = []
    room = _SHOWN_CHARACTERS
    for part in message.parts:
        if part.content_type not in _SHOWN_TYPES or part.disposition == "attachment":
            continue
        text = _html_text(part.text) if part.content_type == "text/html" else part.text
        if room:
            parts.append(text[:room])
        if text[room:].strip():
            return ShownText(fields, tuple(parts), is_cut=True)
        room = max(0, room - len(text))
    return ShownText(fields, tuple(parts), is_cut=False)


def _html_text(source: str) -> str:
    """Return the text of an HTML source; what finds the tags knows them in lower case alone."""
    return html.visible_text(_TAG.sub(lambda tag: tag[0].lower(), source))
