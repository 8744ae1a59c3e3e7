"""The MIME parts of a message: one bounded walk over the raw bytes that never raises on malformed mail.

There is only one parser, so the same message always has the same parts. For two parsers that were compared with it
see docs/experiments.md, "MIME".

Rules: at most ``max_parts`` parts and ``max_depth`` levels are read; what is beyond is not read. A multipart whose
boundary never occurs is read as text. RFC 2045, 2046.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from nbstream.mail import header_fields
from nbstream.mail.charsets import decode_long_text
from nbstream.mail.encoded_words import decode_transfer_encoding
from nbstream.mail.parameters import parse_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbstream.mail.header_fields import HeaderField

MAX_HEADER_BYTES = 256 * 1024
"""How many bytes of a header are read as fields at most; those that say what a part is are read anywhere in it.

Real headers are smaller than 20 kB, but Postfix takes single fields of 102,400 bytes.
"""

# What of ``look_bytes`` is for the header, which is mostly smaller: the body has the rest, whatever its header.
_HEADER_ROOM_BYTES = 64 * 1024

# Lines that only begin like the delimiter are skipped one by one, and by a pattern where they are many: to compile
# it takes a tenth of a millisecond.
_MAX_OTHER_LINES = 200
_DELIMITER_END = rb"(?:--)?\s*(?:\r\n|\Z)"

_CONTENT_FIELDS = frozenset({"content-type", "content-disposition", "content-transfer-encoding"})


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """How much of a message is read: bytes, parts, and levels of the tree.

    ``look_bytes`` are read from the beginning. Of what is beyond them, an eighth of that is read from the end.
    """

    look_bytes: int = 1 << 20
    max_parts: int = 200
    max_depth: int = 20

    @property
    def end_bytes(self) -> int:
        """How many bytes are read from the end of a message that is longer than what is parsed."""
        return self.look_bytes // 8


@dataclass(frozen=True, slots=True)
class MimePart:
    """One node of the MIME tree. The nodes are in document order: a container comes before its children.

    ``payload`` is the content after transfer decoding, empty for a container. ``depth`` is 0 for the message
    itself. ``fields`` are the header fields, of any other part those whose name begins with "Content-".
    """

    content_type: str
    depth: int
    charset: str | None = None
    filename: str | None = None
    disposition: str = ""
    transfer_encoding: str = ""
    payload: bytes = b""
    is_container: bool = False
    fields: tuple[HeaderField, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """The payload as text in the charset of the part."""
        return decode_long_text(self.payload, self.charset)


def parse_parts(raw: bytes, limits: MessageLimits) -> tuple[MimePart, ...]:
    """Return the parts of the message ``raw`` (CRLF line ends); the first one is the message itself."""
    readable = raw[: parsed_bytes(raw, limits)]
    return tuple(islice(_walk_parts(readable, 0, limits, "text/plain"), limits.max_parts))


def parsed_bytes(raw: bytes, limits: MessageLimits) -> int:
    """Return how many bytes ``parse_parts`` reads of the message ``raw`` at most."""
    # Where a longer header ends does not matter, so 20 MB without an empty line are not searched for one.
    offset = header_fields.body_offset(raw[: MAX_HEADER_BYTES + 1])
    # The bytes count from the body on: what a server adds to the header must not change how much of the body is
    # read.
    end = limits.look_bytes if offset > MAX_HEADER_BYTES else offset + limits.look_bytes - _HEADER_ROOM_BYTES
    return max(end, 0)


def _walk_parts(raw: bytes, depth: int, limits: MessageLimits, default_type: str) -> Iterator[MimePart]:
    offset = header_fields.body_offset(raw)
    parse = header_fields.parse_content_fields if depth else header_fields.parse_fields
    fields = parse(raw, min(offset, MAX_HEADER_BYTES))
    # A field that is too long for everything else must not hide what the part is.
    content_fields = fields if offset <= MAX_HEADER_BYTES else header_fields.parse_content_fields(raw, offset)
    header = _parse_part_header(content_fields, default_type)
    if depth < limits.max_depth:
        if header.boundary:
            # From the CRLF before the body on, because it may belong to the first delimiter.
            children = split_multipart(raw[max(0, offset - 2) :], header.boundary, limits.max_parts)
            if children:
                yield _container_part(header, depth, fields)
                child_type = "message/rfc822" if header.content_type == "multipart/digest" else "text/plain"
                for child in children:
                    yield from _walk_parts(child, depth + 1, limits, child_type)
                return
        elif header.content_type == "message/rfc822":
            yield _container_part(header, depth, fields)
            yield from _walk_parts(
                decode_transfer_encoding(raw[offset:], header.transfer_encoding), depth + 1, limits, "text/plain"
            )
            return
    yield _leaf_part(header, depth, fields, raw[offset:])


class _PartHeader(NamedTuple):
    """What the header fields of a part say; ``is_composite`` is whether they declare that it contains others."""

    content_type: str
    charset: str | None
    filename: str | None
    disposition: str
    transfer_encoding: str
    is_composite: bool
    boundary: bytes


def _parse_part_header(fields: tuple[HeaderField, ...], default_type: str) -> _PartHeader:
    first = {field.name: field.value for field in reversed(fields) if field.name in _CONTENT_FIELDS}
    content_type, type_parameters = parse_parameters(first.get("content-type", b""))
    if content_type.count("/") != 1:
        content_type = default_type
    disposition, disposition_parameters = parse_parameters(first.get("content-disposition", b""))
    boundary = type_parameters.get("boundary", "") if content_type.startswith("multipart/") else ""
    return _PartHeader(
        content_type,
        charset=type_parameters.get("charset"),
        filename=disposition_parameters.get("filename") or type_parameters.get("name"),
        disposition=disposition,
        transfer_encoding=parse_parameters(first.get("content-transfer-encoding", b""))[0],
        is_composite=bool(boundary) or content_type == "message/rfc822",
        boundary=boundary.encode("utf-8", "surrogateescape").rstrip(),
    )


def _container_part(header: _PartHeader, depth: int, fields: tuple[HeaderField, ...]) -> MimePart:
    return MimePart(
        header.content_type,
        depth,
        header.charset,
        header.filename,
        header.disposition,
        header.transfer_encoding,
        is_container=True,
        fields=fields,
    )


def _leaf_part(header: _PartHeader, depth: int, fields: tuple[HeaderField, ...], body: bytes) -> MimePart:
    return MimePart(
        "text/plain" if header.is_composite else header.content_type,
        depth,
        header.charset,
        header.filename,
        header.disposition,
        header.transfer_encoding,
        payload=decode_transfer_encoding(body, header.transfer_encoding),
        fields=fields,
    )


def split_multipart(body: bytes, boundary: bytes, max_parts: int) -> list[bytes]:
    """Return the raw parts between the delimiter lines of ``body``, without preamble and epilogue.

    ``body`` starts with the CRLF that ends the header. The line end before a delimiter belongs to the delimiter
    (RFC 2046 5.1.1). Without a closing delimiter the last part extends to the end. The result is empty where the
    boundary never occurs.
    """
    delimiter = b"\r\n--" + boundary
    parts: list[bytes] = []
    start = -1
    other_lines = 0
    at = body.find(delimiter)
    while at >= 0 and len(parts) < max_parts:
        after = at + len(delimiter)
        line_end = body.find(b"\r\n", after)
        line_end = len(body) if line_end < 0 else line_end
        rest = body[after:line_end].rstrip()
        if rest in {b"", b"--"}:
            if start >= 0:
                parts.append(body[start:at])
            start = line_end + 2
            if rest:
                return parts
        else:  # the line only begins like the delimiter: it is a longer boundary, or text
            other_lines += 1
        if other_lines <= _MAX_OTHER_LINES:
            at = body.find(delimiter, line_end)
        else:
            match = re.compile(re.escape(delimiter) + _DELIMITER_END).search(body, line_end)
            at = match.start() if match else -1
    if 0 <= start < len(body) and len(parts) < max_parts:
        parts.append(body[start:])
    return parts
