"""Forwarded messages: which ones a piece of feedback mail means.

A forward is a top-level multipart/mixed or multipart/digest with message/rfc822 parts, or an abuse report
(ARF, RFC 5965: multipart/report; report-type=feedback-report): its message/rfc822 parts are meant. Anything
else, other reports too, is itself the message that is meant.
"""

from __future__ import annotations

from nbstream.mail import headers, mime

_CARRIERS = frozenset({"multipart/mixed", "multipart/digest"})
_PARTS_A_MESSAGE = 10


def messages_meant(raw: bytes, max_messages: int) -> list[bytes] | None:
    """The raw messages that a feedback mail (CRLF line ends) is about: its attached ones, or itself.

    Empty for an abuse report that carries no message. None for more than ``max_messages`` messages, or for ten
    times as many parts: none is silently left out.
    """
    offset = headers.body_offset(raw)
    content_type, parameters = _content_type(raw, offset)
    report = content_type == "multipart/report" and parameters.get("report-type", "").lower() == "feedback-report"
    boundary = parameters.get("boundary", "").encode("utf-8", "surrogateescape").rstrip()
    if not boundary or not (report or content_type in _CARRIERS):
        return [raw]
    max_parts = max_messages * _PARTS_A_MESSAGE
    pieces = mime.split_multipart(raw[max(0, offset - 2) :], boundary, max_parts + 1)
    default_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    attached = [message for piece in pieces if (message := _attached(piece, default_type)) is not None]
    if len(pieces) > max_parts or len(attached) > max_messages:
        return None
    return attached if attached or report else [raw]


def _attached(piece: bytes, default_type: str) -> bytes | None:
    """The message inside a message/rfc822 part, or None for a part of another type."""
    offset = headers.body_offset(piece)
    fields = _first_fields(piece, offset)
    content_type = headers.parameters(fields.get("content-type", b""))[0] or default_type
    if content_type != "message/rfc822":
        return None
    encoding = headers.parameters(fields.get("content-transfer-encoding", b""))[0]
    return headers.canonical(mime.without_encoding(piece[offset:], encoding))


def _content_type(raw: bytes, offset: int) -> tuple[str, dict[str, str]]:
    return headers.parameters(_first_fields(raw, offset).get("content-type", b""))


def _first_fields(raw: bytes, offset: int) -> dict[str, bytes]:
    """The first field of each name."""
    return {each.name: each.value for each in reversed(headers.fields(raw, min(offset, mime.MAX_HEADER_BYTES)))}
