"""Messages within messages: which ones a mail contains that was sent as feedback, and the report of SpamAssassin.

The contained messages are the attached ones: parts of the type message/rfc822 or message/global, and files called
``.eml``, within multipart/mixed, digest, related and signed, however these are nested: a signature or a footer may
have been put around a forward. An abuse report (ARF, RFC 5965: multipart/report; report-type=feedback-report) has
its message too, or only the header of it (text/rfc822-headers), and names its feedback type. A mail of the type
message/rfc822 contains what it encloses.

If a mail contains no message, the question is whether the mail itself is the message of which the feedback speaks.

- A redirected mail, with Resent-* fields (RFC 5322 3.6.6), is that message.
- A mail whose To or Cc has the address to which it was sent, or with Thunderbird's X-Forwarded-Message-Id, was
  written about another message. A mail that was once delivered to a reader has the reader's address there, and not
  a feedback address.
- Otherwise it cannot be known. Spam also has "Fwd:" subjects, references and quotations, so these are no sign.

SpamAssassin makes a report of spam, unless ``report_safe`` is 0. Such a report is what lies in a Junk folder
behind it: its words are those of SpamAssassin, and who learns them learns nothing of the spam.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from nbstream.mail import header_fields, mime
from nbstream.mail.addresses import canonical_address, find_addresses
from nbstream.mail.encoded_words import decode_encoded_words, decode_transfer_encoding
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.mime import parse_parameters

_FORWARDING_TYPES = frozenset({"multipart/mixed", "multipart/digest", "multipart/related", "multipart/signed"})
_MESSAGE_TYPES = frozenset({"message/rfc822", "message/global"})
_FORWARDED_TYPES = _MESSAGE_TYPES | {"text/rfc822-headers", "message/feedback-report"}
_FILE_TYPES = frozenset({"application/octet-stream", "application/x-eml", "application/eml"})
_OPAQUE_TYPES = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_MAX_DEPTH = 8
_MAX_SUBJECT = 200
# What mail programs put before the Subject of a forward, in eight languages.
_FORWARDED_SUBJECT = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|vs|vb|pd)\s*:|\[fwd", re.IGNORECASE)
_MAX_PARTS_PER_MESSAGE = 10
_RESENT_FIELDS = frozenset({"resent-from", "resent-to", "resent-date", "resent-sender", "resent-message-id"})


class ForwardedContent(NamedTuple):
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
    walk = _Walk(max_messages * _MAX_PARTS_PER_MESSAGE + 1)
    walk.read(raw, "text/plain", 0)
    if walk.parts_left <= 0 or len(walk.messages) > max_messages:
        return None
    headers = tuple(walk.headers) if walk.feedback_type is not None else ()
    return ForwardedContent(tuple(walk.messages), headers, walk.feedback_type)


class _Walk:
    """The walk through the parts of one mail: what was found, and how many parts may still be read."""

    def __init__(self, max_parts: int) -> None:
        self.parts_left = max_parts
        self.messages: list[bytes] = []
        self.headers: list[bytes] = []
        self.feedback_type: str | None = None

    def read(self, raw: bytes, default_type: str, depth: int) -> None:
        """Read a part with its header; what stands deeper than ``_MAX_DEPTH`` is not read."""
        offset = header_fields.body_offset(raw)
        fields = _first_fields(raw, offset)
        content_type, parameters = parse_parameters(fields.get("content-type", b""))
        content_type = content_type or default_type
        report = (
            content_type == "multipart/report" and parameters.get("report-type", "").lower() == "feedback-report"
        )
        if report or content_type in _FORWARDING_TYPES:
            if report and self.feedback_type is None:
                self.feedback_type = ""
            boundary = parameters.get("boundary", "").encode("utf-8", "surrogateescape").rstrip()
            if boundary and depth < _MAX_DEPTH:
                self._read_children(raw[max(0, offset - 2) :], boundary, content_type, depth)
            return
        is_file = content_type in _FILE_TYPES and _file_name(fields, parameters).endswith(".eml")
        if not is_file and content_type not in _FORWARDED_TYPES:
            return
        encoding = parse_parameters(fields.get("content-transfer-encoding", b""))[0]
        content = normalize_line_ends(decode_transfer_encoding(raw[offset:], encoding))
        if content_type == "text/rfc822-headers":
            self.headers.append(content)
        elif content_type == "message/feedback-report":
            self.feedback_type = self.feedback_type or _parse_feedback_type(content)
        elif parameters.get("forwarded", "").lower() == "no" and depth < _MAX_DEPTH:
            self.read(content, "text/plain", depth + 1)  # the mail itself, in a signature that protects its header
        else:
            self.messages.append(content)

    def _read_children(self, body: bytes, boundary: bytes, content_type: str, depth: int) -> None:
        children = mime.split_multipart(body, boundary, self.parts_left)
        self.parts_left -= len(children)
        if self.parts_left <= 0:
            return
        default_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
        # The second part of what is signed is the signature (RFC 1847 2.1).
        for child in children[:1] if content_type == "multipart/signed" else children:
            self.read(child, default_type, depth + 1)


def _file_name(fields: Mapping[str, bytes], type_parameters: Mapping[str, str]) -> str:
    disposition = parse_parameters(fields.get("content-disposition", b""))[1]
    return (disposition.get("filename") or type_parameters.get("name", "")).lower()


def is_redirected(raw: bytes) -> bool:
    """Return whether the mail was redirected: somebody sent the message of somebody else on, unchanged."""
    return not _RESENT_FIELDS.isdisjoint(_first_fields(raw, header_fields.body_offset(raw)))


def is_own_forward(raw: bytes, sender: str) -> bool:
    """Return whether ``sender``, the address that sent the mail here, wrote it as a forward, signed or to nobody.

    A mail that a mail server redirects has the address of its first sender in both places too.
    """
    fields = _first_fields(raw, header_fields.body_offset(raw))
    is_signed = parse_parameters(fields.get("content-type", b""))[0] == "multipart/signed"
    is_to_nobody = not find_addresses([fields.get("to", b""), fields.get("cc", b"")])
    if not (
        is_signed
        or is_to_nobody
        or _FORWARDED_SUBJECT.match(decode_encoded_words(fields.get("subject", b"")[:_MAX_SUBJECT]))
    ):
        return False
    return bool(sender) and canonical_address(sender) in find_addresses([fields.get("from", b"")])


def is_opaque(raw: bytes) -> bool:
    """Return whether the mail is encrypted, or signed in a form that encloses its text (RFC 8551, RFC 3156)."""
    fields = _first_fields(raw, header_fields.body_offset(raw))
    return parse_parameters(fields.get("content-type", b""))[0] in _OPAQUE_TYPES


def is_addressed_to(raw: bytes, addresses: Collection[str]) -> bool:
    """Return whether the mail was written to one of ``addresses`` (canonical), or is an inline forward."""
    end = min(header_fields.body_offset(raw), header_fields.MAX_HEADER_BYTES)
    fields = header_fields.parse_fields(raw, end)
    if any(field.name == "x-forwarded-message-id" for field in fields):
        return True
    written_to = find_addresses((field.value for field in fields if field.name in {"to", "cc"}), end)
    return not set(addresses).isdisjoint(written_to)


def _parse_feedback_type(report: bytes) -> str:
    """Return the Feedback-Type of a report (RFC 5965 3.1), in lower case."""
    value = _first_fields(report, len(report)).get("feedback-type", b"")
    return value.partition(b"(")[0].strip().lower().decode("ascii", "replace")


def _first_fields(raw: bytes, offset: int) -> dict[str, bytes]:
    """Return the value of the first field of each name."""
    return {
        field.name: field.value
        for field in reversed(header_fields.parse_fields(raw, min(offset, header_fields.MAX_HEADER_BYTES)))
    }


# From SpamAssassin 4.0.1, which writes this of itself; amavis has a form of its own.
_MADE_BY = b"\nX-Spam-Checker-Version: SpamAssassin "
_BOUNDARY = re.compile(rb'\nContent-Type: multipart/mixed; boundary="(-{10}=_[0-9A-F]{8}\.[0-9A-F]{8})"')
_PART = (
    rb"\r?\nContent-Type: (?:message/rfc822|text/plain); x-spam-type=original\r?\n"
    rb"(?:[^\r\n]{1,998}\r?\n){0,9}\r?\n"
)
_BLANK_LINE = re.compile(rb"\n\r?\n")


def original_of(raw: bytes) -> bytes:
    """Return the message that is in a report of SpamAssassin, byte for byte; any other message as it is."""
    blank = _BLANK_LINE.search(raw)
    head = b"\n" + raw[: blank.start()] if blank else b""
    boundary = _BOUNDARY.search(head)
    if boundary is None or _MADE_BY not in head:
        return raw
    delimiter = b"\n--" + boundary[1]
    part = re.search(re.escape(delimiter) + _PART, raw)
    end = raw.rfind(delimiter + b"--")
    return raw[part.end() : end].removesuffix(b"\r") if part and end >= part.end() else raw
