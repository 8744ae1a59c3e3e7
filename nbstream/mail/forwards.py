"""Forwarded messages: what a mail that was sent as feedback carries.

Carried are the message/rfc822 parts of a top-level multipart/mixed or multipart/digest (a forward as attachment)
and of an abuse report (ARF, RFC 5965: multipart/report; report-type=feedback-report). A report may carry no more
than the header of its message (text/rfc822-headers), and says of what type it is.

Where nothing is carried, the question is whether the mail is the message that is meant or was written about it.

- Redirected, by Resent-* fields (RFC 5322 3.6.6): it is the message.
- Written to the address that it was sent to, by its To or Cc, or with Thunderbird's X-Forwarded-Message-Id: it was
  written about a message. What was once delivered to a reader names the reader there, not a feedback address.
- Else nobody can say. Spam too is called "Fwd:", answers something and quotes, so none of that is a sign.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from nbstream.mail import header_fields, mime

_FORWARDING_TYPES = frozenset({"multipart/mixed", "multipart/digest"})
_FORWARDED_TYPES = frozenset({"message/rfc822", "text/rfc822-headers", "message/feedback-report"})
_MAX_PARTS_PER_MESSAGE = 10
_RESENT_FIELDS = frozenset({"resent-from", "resent-to", "resent-date", "resent-sender", "resent-message-id"})


@dataclass(frozen=True, slots=True)
class ForwardedContent:
    """Raw messages (CRLF line ends), headers of messages that are not there themselves, and the report's type.

    ``feedback_type`` is in lower case, empty where the report has none; None where the mail is no abuse report.
    """

    messages: tuple[bytes, ...] = ()
    headers_only: tuple[bytes, ...] = ()
    feedback_type: str | None = None


def parse_forwarded_content(raw: bytes, max_messages: int) -> ForwardedContent | None:
    """What a feedback mail (CRLF line ends) carries.

    None for more than ``max_messages`` messages, or for ten times as many parts: none is silently left out.
    """
    offset = header_fields.body_offset(raw)
    content_type, parameters = header_fields.parse_parameters(_first_fields(raw, offset).get("content-type", b""))
    report = content_type == "multipart/report" and parameters.get("report-type", "").lower() == "feedback-report"
    feedback_type = "" if report else None
    boundary = parameters.get("boundary", "").encode("utf-8", "surrogateescape").rstrip()
    if not boundary or not (report or content_type in _FORWARDING_TYPES):
        return ForwardedContent(feedback_type=feedback_type)
    max_parts = max_messages * _MAX_PARTS_PER_MESSAGE
    pieces = mime.split_multipart(raw[max(0, offset - 2) :], boundary, max_parts + 1)
    default_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    parts = [_decode_part(piece, default_type) for piece in pieces]
    messages = tuple(content for kind, content in parts if kind == "message/rfc822")
    heads = tuple(content for kind, content in parts if kind == "text/rfc822-headers")
    if len(pieces) > max_parts or len(messages) > max_messages:
        return None
    if report:
        feedback_type = next(
            (_parse_feedback_type(content) for kind, content in parts if kind == "message/feedback-report"), ""
        )
    return ForwardedContent(messages, heads if report else (), feedback_type)


def is_redirected(raw: bytes) -> bool:
    """Whether the mail is somebody else's, sent on as it was."""
    return not _RESENT_FIELDS.isdisjoint(_first_fields(raw, header_fields.body_offset(raw)))


def is_addressed_to(raw: bytes, addresses: Collection[str]) -> bool:
    """Whether the mail itself was written to one of ``addresses`` (lower case), or is an inline forward."""
    end = min(header_fields.body_offset(raw), mime.MAX_HEADER_BYTES)
    found = header_fields.parse_fields(raw, end)
    if any(each.name == "x-forwarded-message-id" for each in found):
        return True
    named = " ".join(each.text.lower() for each in found if each.name in {"to", "cc"})
    return any(re.search(rf"(?<![\w.+-]){re.escape(each)}(?![\w.-])", named) for each in addresses)


def _decode_part(piece: bytes, default_type: str) -> tuple[str, bytes]:
    """The type of a part, and of those that are of interest the content without its transfer encoding."""
    offset = header_fields.body_offset(piece)
    fields = _first_fields(piece, offset)
    content_type = header_fields.parse_parameters(fields.get("content-type", b""))[0] or default_type
    if content_type not in _FORWARDED_TYPES:
        return content_type, b""
    encoding = header_fields.parse_parameters(fields.get("content-transfer-encoding", b""))[0]
    return content_type, header_fields.normalize_line_ends(mime.decode_transfer_encoding(piece[offset:], encoding))


def _parse_feedback_type(report: bytes) -> str:
    """The Feedback-Type of a report (RFC 5965 3.1), in lower case."""
    value = _first_fields(report, len(report)).get("feedback-type", b"")
    return value.partition(b"(")[0].strip().lower().decode("ascii", "replace")


def _first_fields(raw: bytes, offset: int) -> dict[str, bytes]:
    """The first field of each name."""
    return {
        each.name: each.value
        for each in reversed(header_fields.parse_fields(raw, min(offset, mime.MAX_HEADER_BYTES)))
    }
