"""The original message in the report that SpamAssassin makes of spam, unless ``report_safe`` is 0.

Rules: pure; one pass over the message. Such a report is what lies in a Junk folder behind SpamAssassin: its words
are those of SpamAssassin, and who learns them learns nothing of the spam.
"""

from __future__ import annotations

import re

# From SpamAssassin 4.0.1, which writes this of itself; amavis has a form of its own.
_MADE_BY = re.compile(rb"(?m)^X-Spam-Checker-Version: SpamAssassin ")
_BOUNDARY = re.compile(rb'(?m)^Content-Type: multipart/mixed; boundary="(-{10}=_[0-9A-F]{8}\.[0-9A-F]{8})"')
_PART = (
    rb"\r?\nContent-Type: (?:message/rfc822|text/plain); x-spam-type=original\r?\n"
    rb"(?:[^\r\n]{1,998}\r?\n){0,9}\r?\n"
)
_BLANK_LINE = re.compile(rb"\n\r?\n")


def original_of(raw: bytes) -> bytes:
    """Return the message that is in a report of SpamAssassin, byte for byte; any other message as it is."""
    blank = _BLANK_LINE.search(raw)
    head = raw[: blank.start()] if blank else b""
    boundary = _BOUNDARY.search(head)
    if boundary is None or not _MADE_BY.search(head):
        return raw
    delimiter = b"\n--" + boundary[1]
    part = re.search(re.escape(delimiter) + _PART, raw)
    end = raw.rfind(delimiter + b"--")
    return raw[part.end() : end].removesuffix(b"\r") if part and end >= part.end() else raw
