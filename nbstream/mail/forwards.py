"""Forwarded messages: which messages a mail contains that was sent as feedback.

The contained messages are the message/rfc822 parts of a top-level multipart/mixed or multipart/digest (a forward
as attachment) and of an abuse report (ARF, RFC 5965: multipart/report; report-type=feedback-report). A report may
contain only the header of its message (text/rfc822-headers), and names its feedback type.

If a mail contains no message, the question is whether the mail itself is the message of which the feedback speaks.

- A redirected mail, with Resent-* fields (RFC 5322 3.6.6), is that message.
- A mail whose To or Cc has the address to which it was sent, or with Thunderbird's X-Forwarded-Message-Id, was
  written about another message. A mail that was once delivered to a reader has the reader's address there, and not
  a feedback address.
- Otherwise it cannot be known. Spam also has "Fwd:" subjects, references and quotations, so these are no sign.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from nbstream.mail import header_fields, mime
from nbstream.mail.encoded_words import decode_transfer_encoding
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.parameters import parse_parameters

_FORWARDING_TYPES = frozenset({"multipart/mixed", "multipart/digest"})
_FORWARDED_TYPES = frozenset({"message/rfc822", "text/rfc822-headers", "message/feedback-report"})
_MAX_PARTS_PER_MESSAGE = 10
_RESENT_FIELDS = frozenset({"resent-from", "resent-to", "resent-date", "resent-sender", "resent-message-id"})


@dataclass(frozen=True, slots=True)
class ForwardedContent:
    """What a feedback mail contains.

    ``messages`` are raw messages (CRLF line ends), ``headers_only`` the headers of messages that are not contained
    as a whole. ``feedback_type`` is that of an abuse report, in lower case and empty where the report names none;
    it is None where the mail is not an abuse report.
    """

    messages: tuple[bytes, ...] = ()
    headers_only: tuple[bytes, ...] = ()
    feedback_type: str | None = None


def parse_forwarded_content(raw: bytes, max_messages: int) -> ForwardedContent | None:
    """Return what a feedback mail (CRLF line ends) contains.

    The result is None if there are more than ``max_messages`` messages, or more than ten times as many parts, so
    that no message is left out silently.
    """
    offset = header_fields.body_offset(raw)
    content_type, parameters = parse_parameters(_first_fields(raw, offset).get("content-type", b""))
    report = content_type == "multipart/report" and parameters.get("report-type", "").lower() == "feedback-report"
    feedback_type = "" if report else None
    boundary = parameters.get("boundary", "").encode("utf-8", "surrogateescape").rstrip()
    if not boundary or not (report or content_type in _FORWARDING_TYPES):
        return ForwardedContent(feedback_type=feedback_type)
    max_parts = max_messages * _MAX_PARTS_PER_MESSAGE
    raw_parts = mime.split_multipart(raw[max(0, offset - 2) :], boundary, max_parts + 1)
    default_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    parts = [_decode_part(raw_part, default_type) for raw_part in raw_parts]
    messages = tuple(content for kind, content in parts if kind == "message/rfc822")
    headers = tuple(content for kind, content in parts if kind == "text/rfc822-headers")
    if len(raw_parts) > max_parts or len(messages) > max_messages:
        return None
    if report:
        feedback_type = next(
            (_parse_feedback_type(content) for kind, content in parts if kind == "message/feedback-report"), ""
        )
    return ForwardedContent(messages, headers if report else (), feedback_type)


def is_redirected(raw: bytes) -> bool:
    """Return whether the mail was redirected: somebody sent the message of somebody else on, unchanged."""
    return not _RESENT_FIELDS.isdisjoint(_first_fields(raw, header_fields.body_offset(raw)))


def is_addressed_to(raw: bytes, addresses: Collection[str]) -> bool:
    """Return whether the mail was written to one of ``addresses`` (lower case), or is an inline forward."""
    end = min(header_fields.body_offset(raw), mime.MAX_HEADER_BYTES)
    fields = header_fields.parse_fields(raw, end)
    if any(field.name == "x-forwarded-message-id" for field in fields):
        return True
    recipients = " ".join(field.text.lower() for field in fields if field.name in {"to", "cc"})
    return any(re.search(rf"(?<![\w.+-]){re.escape(address)}(?![\w.-])", recipients) for address in addresses)


def _decode_part(raw: bytes, default_type: str) -> tuple[str, bytes]:
    """Return the type of a part and, where it is one of ``_FORWARDED_TYPES``, its decoded content."""
    offset = header_fields.body_offset(raw)
    fields = _first_fields(raw, offset)
    content_type = parse_parameters(fields.get("content-type", b""))[0] or default_type
    if content_type not in _FORWARDED_TYPES:
        return content_type, b""
    encoding = parse_parameters(fields.get("content-transfer-encoding", b""))[0]
    return content_type, normalize_line_ends(decode_transfer_encoding(raw[offset:], encoding))


def _parse_feedback_type(report: bytes) -> str:
    """Return the Feedback-Type of a report (RFC 5965 3.1), in lower case."""
    value = _first_fields(report, len(report)).get("feedback-type", b"")
    return value.partition(b"(")[0].strip().lower().decode("ascii", "replace")


def _first_fields(raw: bytes, offset: int) -> dict[str, bytes]:
    """Return the value of the first field of each name."""
    return {
        field.name: field.value
        for field in reversed(header_fields.parse_fields(raw, min(offset, mime.MAX_HEADER_BYTES)))
    }
