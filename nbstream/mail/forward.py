"""Forwarded messages: which ones a piece of feedback mail means.

A forward is a top-level multipart/mixed or multipart/digest with message/rfc822 parts, or an abuse report
(ARF, RFC 5965: multipart/report; report-type=feedback-report): its message/rfc822 parts are meant. Anything
else, other reports too, is itself the message that is meant.
"""

from __future__ import annotations

from nbstream.mail import headers, mime

_CARRIERS = frozenset({"multipart/mixed", "multipart/digest"})
_NO_LIMIT = 1 << 30  # the size of the mail bounds its parts; leaving some out would leave feedback unlearned


def messages_meant(raw: bytes, max_messages: int) -> list[bytes]:
    """The raw messages that a feedback mail (CRLF line ends) is about: its attached ones, or itself.

    At most ``max_messages + 1`` come back, so that the caller sees that there were more.
    """
    offset = headers.body_offset(raw)
    found = {each.name: each.value for each in reversed(headers.fields(raw, min(offset, mime.MAX_HEADER_BYTES)))}
    content_type, parameters = headers.parameters(found.get("content-type", b""))
    report = content_type == "multipart/report" and parameters.get("report-type", "").lower() == "feedback-report"
    boundary = parameters.get("boundary", "").encode("utf-8", "surrogateescape").rstrip()
    if not boundary or not (report or content_type in _CARRIERS):
        return [raw]
    default_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    attached: list[bytes] = []
    for piece in mime.split_multipart(raw[max(0, offset - 2) :], boundary, _NO_LIMIT):
        message = _attached(piece, default_type)
        if message is not None:
            attached.append(message)
        if len(attached) > max_messages:
            break
    return attached or [raw]


def _attached(piece: bytes, default_type: str) -> bytes | None:
    """The message inside a message/rfc822 part, or None for a part of another type."""
    offset = headers.body_offset(piece)
    found = {each.name: each.value for each in reversed(headers.fields(piece, offset))}
    content_type = headers.parameters(found.get("content-type", b""))[0] or default_type
    if content_type != "message/rfc822":
        return None
    encoding = headers.parameters(found.get("content-transfer-encoding", b""))[0]
    return headers.canonical(mime.without_encoding(piece[offset:], encoding))
