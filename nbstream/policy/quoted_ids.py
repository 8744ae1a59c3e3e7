"""The ids in the text of a mail: our own verdict field, quoted in an inline forward or in a reply to one.

Rules: only the text is searched, never an attachment. Only the name of the field with an id of the exact shape
behind it counts, however it is quoted and wrapped, in plain text or in HTML.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from nbstream.tokens import html

if TYPE_CHECKING:
    from nbstream.mail.message import Message

_QUOTE_MARKS = re.compile(r"(?m)^[\s>|]+")
# The longest value that we write has 270 characters before the name of the model, and no colon. With these bounds
# no search runs into the next field, and the time for a text of nothing but beginnings stays linear.
_QUOTED_VALUE = r" ?:[^:]{0,300}?\bmodel ?= ?[a-z0-9._-]+ ?; ?id ?= ?([a-z2-7]{24})(?![a-z0-9])"


@lru_cache(maxsize=4)
def _quoted_field(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name) + _QUOTED_VALUE)


def quoted_ids(message: Message, own_field: str) -> frozenset[str]:
    """Return the distinct ids that the text of ``message`` quotes from fields of the name ``own_field``."""
    name = own_field.lower()
    ids: set[str] = set()
    for part in message.parts:
        if part.content_type in {"text/plain", "text/html"} and part.disposition != "attachment":
            text = part.text.lower()
            if name in text:
                visible_text = html.visible_text(text) if part.content_type == "text/html" else text
                ids.update(_quoted_field(name).findall(" ".join(_QUOTE_MARKS.sub("", visible_text).split())))
    return frozenset(ids)
