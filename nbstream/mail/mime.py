"""The MIME parts of a message: one bounded walk over the raw bytes that never raises on malformed mail.

There is only one parser, so the same message always has the same parts. For two parsers that were compared with it
see docs/experiments.md, "MIME".

Rules: at most ``max_parts`` parts and ``max_depth`` levels are read; what is beyond is not read. A multipart whose
boundary never occurs is read as text. RFC 2045, 2046.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from nbstream.mail import header_fields
from nbstream.mail.charsets import decode_long_text, decode_text
from nbstream.mail.encoded_words import decode_encoded_words, decode_transfer_encoding
from nbstream.mail.header_fields import MAX_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbstream.mail.header_fields import HeaderField


# Parameters of structured header fields such as Content-Type: ``text/plain; charset=utf-8`` (RFC 2045, RFC 2231).
#
# Rules: nothing here raises; any value is read in one pass.

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
# Possessive, so that the pattern never goes back. Only groups without alternatives or look-ahead are repeated in
# this way, because CPython before 3.11.5 matches others wrongly.
_PARAMETER = re.compile(rb""";\s*([^\s=;"]+)\s*=\s*(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"?|([^;\s]*))""", re.DOTALL)
_COMMENT_MARK = re.compile(rb"(?<!\\)([()])")
# Longer values are not cached: a sender who fills the cache with new values costs a megabyte at most.
_MAX_CACHED_BYTES = 200
_MAX_VALUE_BYTES = 1000  # a file name has 255 bytes at most, three times as many where they are encoded
# The parameters that anybody reads: of hundreds of others none is decoded.
_READ_PARAMETERS = frozenset({"boundary", "charset", "filename", "forwarded", "name", "report-type"})


def parse_parameters(value: bytes) -> tuple[str, Mapping[str, str]]:
    """Return the first word of a structured value, and its parameters by name.

    The first word, without comments (RFC 5322 3.2.2), and the names are in lower case. RFC 2231 continuations
    (``name*0=``) are joined, and percent-encoded values are decoded. There are only those in ``_READ_PARAMETERS``,
    and of a value ``_MAX_VALUE_BYTES`` are decoded. The boundary alone is decoded as a whole, because the parts
    and the key of a message depend on it.
    """
    # Of the values in a stream of mail, four in five were seen before.
    return _parse_parameters_cached(value) if len(value) <= _MAX_CACHED_BYTES else _parse_parameters(value)


def _without_comments(value: bytes) -> bytes:
    """Return the beginning of a value without comments, which may be nested; the last one may have no end."""
    kept: list[bytes] = []
    depth = 0
    for piece in _COMMENT_MARK.split(value[:_MAX_VALUE_BYTES]):
        if piece == b"(":
            depth += 1
        elif piece == b")":
            depth = max(depth - 1, 0)
        elif not depth:
            kept.append(piece)
    return b" ".join(kept)


def _parse_parameters(value: bytes) -> tuple[str, Mapping[str, str]]:
    unfolded = value.replace(b"\r\n", b"")
    first, semicolon, _ = unfolded.partition(b";")
    word = _without_comments(first) if b"(" in first else first
    main = word.strip().lower().decode("ascii", "replace")
    if not semicolon:
        return main, _NO_PARAMETERS
    parameters: dict[str, str] = {}
    extended: dict[str, list[tuple[int, bytes, bool]]] = {}
    for match in _PARAMETER.finditer(unfolded):
        written = match[1].lower().decode("ascii", "replace")
        name, star, section = written.partition("*")
        if name not in _READ_PARAMETERS or name in parameters:
            continue
        content = match[3] if match[2] is None else _ESCAPED.sub(rb"\1", match[2])
        if not star:
            parameters[name] = decode_encoded_words(content if name == "boundary" else content[:_MAX_VALUE_BYTES])
            continue
        number = section.rstrip("*")
        order = int(number) if number.isdigit() and len(number) < 4 else 0
        extended.setdefault(name, []).append((order, content, written.endswith("*")))
    joined = {
        name: _join_parameter_sections(of_name) for name, of_name in extended.items() if name not in parameters
    }
    return main, MappingProxyType({**parameters, **joined})  # it is cached: nobody may change it


_parse_parameters_cached = lru_cache(maxsize=512)(_parse_parameters)
_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


def _join_parameter_sections(sections: list[tuple[int, bytes, bool]]) -> str:
    """Return the text of an RFC 2231 value, ``charset'language'percent-encoded``, perhaps in numbered sections.

    A section is its number, its raw value, and whether that is percent-encoded.
    """
    charset: str | None = None
    content = b""
    for position, (_, section, encoded) in enumerate(sorted(sections, key=lambda section: section[0])):
        value = section
        if encoded:
            if position == 0 and section.count(b"'") >= 2:
                name, _, value = section.split(b"'", 2)
                charset = name.decode("latin-1")
            value = unquote_to_bytes(value)
        content += value
    return decode_text(content, charset)


# What of ``look_bytes`` is for the header, which is mostly smaller: the body has the rest, whatever its header.
_HEADER_ROOM_BYTES = 64 * 1024

# Lines that only begin like the delimiter are skipped one by one, and by a pattern where they are many: to compile
# it takes a tenth of a millisecond.
_MAX_OTHER_LINES = 200
_DELIMITER_END = rb"(?:--)?\s*(?:\r\n|\Z)"

_CONTENT_FIELDS = frozenset({"content-type", "content-disposition", "content-transfer-encoding"})


class MessageLimits(NamedTuple):
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
    part, boundary = _read_part_header(content_fields, default_type, depth)
    part = replace(part, fields=fields)
    delimiter = boundary.encode("utf-8", "surrogateescape").rstrip()
    if depth < limits.max_depth:
        if delimiter:
            # From the CRLF before the body on, because it may belong to the first delimiter.
            children = split_multipart(raw[max(0, offset - 2) :], delimiter, limits.max_parts)
            if children:
                yield replace(part, is_container=True)
                child_type = "message/rfc822" if part.content_type == "multipart/digest" else "text/plain"
                for child in children:
                    yield from _walk_parts(child, depth + 1, limits, child_type)
                return
        elif part.content_type == "message/rfc822":
            yield replace(part, is_container=True)
            content = decode_transfer_encoding(raw[offset:], part.transfer_encoding)
            yield from _walk_parts(content, depth + 1, limits, "text/plain")
            return
    is_composite = boundary or part.content_type == "message/rfc822"
    content_type = "text/plain" if is_composite else part.content_type
    payload = decode_transfer_encoding(raw[offset:], part.transfer_encoding)
    yield replace(part, content_type=content_type, payload=payload)


def _read_part_header(fields: tuple[HeaderField, ...], default_type: str, depth: int) -> tuple[MimePart, str]:
    """Return the part that these fields describe, without its content, and the boundary of a multipart."""
    first = {field.name: field.value for field in reversed(fields) if field.name in _CONTENT_FIELDS}
    content_type, type_parameters = parse_parameters(first.get("content-type", b""))
    if content_type.count("/") != 1:
        content_type = default_type
    disposition, disposition_parameters = parse_parameters(first.get("content-disposition", b""))
    boundary = type_parameters.get("boundary", "") if content_type.startswith("multipart/") else ""
    part = MimePart(
        content_type,
        depth,
        charset=type_parameters.get("charset"),
        filename=disposition_parameters.get("filename") or type_parameters.get("name"),
        disposition=disposition,
        transfer_encoding=parse_parameters(first.get("content-transfer-encoding", b""))[0],
    )
    return part, boundary


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
