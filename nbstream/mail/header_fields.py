"""Header fields on raw bytes: read, removed, prepended. Every other byte stays as it is.

Rules: a message has CRLF line ends here (see ``lines.normalize_line_ends``). The header ends at the first empty
line. A line that starts with a space or tab continues the field above it (RFC 5322 2.2.3). A line without a colon
is not a field. Nothing here raises on malformed mail.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nbstream.mail.encoded_words import decode_encoded_words
from nbstream.mail.lines import PIECE_BYTES, line_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_END = re.compile(rb"\r\n(?![ \t])")
_REST_OF_FIELD = re.compile(rb"(?:(?<!\n)[^\n]*+\n?)?(?:[ \t][^\n]*+\n?)*+")
_NAME = re.compile(rb"[!-9;-~]+")

MAX_HEADER_BYTES = 256 * 1024
"""How many bytes of a header are read as fields, at most.

Only fields that say what a part is are read behind these bytes. Real headers are smaller than 20 kB, but Postfix
takes single fields of 102,400 bytes.
"""

# Longer names are not cached: a sender who fills the cache with new names costs a megabyte at most.
_MAX_CACHED_BYTES = 200


class HeaderField(NamedTuple):
    """A header field: its name in lower case, its raw value with its folds, and its name as it is written.

    This is a named tuple because each message has about 20 of them, and a frozen dataclass is slower to create.
    """

    name: str
    value: bytes
    name_as_written: str = ""

    @property
    def text(self) -> str:
        """The value as text: unfolded, encoded words (RFC 2047) decoded, without white space at the ends."""
        return decode_encoded_words(self.value)


def body_offset(raw: bytes) -> int:
    """Return where the body begins: after the first empty line, or at the end where there is none."""
    if raw.startswith(b"\r\n"):
        return 2
    # In windows: in one step, 50 MB without an empty line hold the interpreter lock for 0.1 s and more.
    for start in range(0, len(raw), PIECE_BYTES):
        blank = raw.find(b"\r\n\r\n", start, start + PIECE_BYTES + 3)
        if blank >= 0:
            return blank + 4
    return len(raw)


def parse_fields(raw: bytes, end: int) -> tuple[HeaderField, ...]:
    """Return the header fields in ``raw[:end]``, in order; lines that are not a field are ignored."""
    fields: list[HeaderField] = []
    for line in _LINE_END.split(raw[:end]):
        name, colon, value = line.partition(b":")
        if colon and (
            names := _parse_field_name_cached(name) if len(name) <= _MAX_CACHED_BYTES else _parse_field_name(name)
        ):
            fields.append(HeaderField(names[0], value.strip(), names[1]))
    return tuple(fields)


def parse_content_fields(raw: bytes, end: int) -> tuple[HeaderField, ...]:
    """Return the fields of ``parse_fields`` whose name begins with "Content-": a part has no others."""
    lines = [line for line in _LINE_END.split(raw[:end]) if line[:8].lower() == b"content-"]
    return parse_fields(b"\r\n".join(lines), end)


def _parse_field_name(raw_name: bytes) -> tuple[str, str] | None:
    """Return the name of a field in lower case and as it is written; None where it is not a valid name."""
    name = raw_name.rstrip(b" \t")
    return (name.lower().decode("ascii"), name.decode("ascii")) if _NAME.fullmatch(name) else None


# Nearly all fields of mail have one of a few hundred names.
_parse_field_name_cached = lru_cache(maxsize=1024)(_parse_field_name)


def find_field(raw: bytes, end: int, name: str) -> HeaderField | None:
    """Return the first field of ``parse_fields`` with this name (lower case), or None; others are not read."""
    match = _field_pattern(name).search(b"\n" + raw[:end])
    return HeaderField(name, match[2].strip(), match[1].decode("ascii")) if match else None


class FieldSpan(NamedTuple):
    """Where a header field stands: its name begins at ``start``, its value behind the colon.

    ``end`` is behind the value with its folds, before the line end.
    """

    start: int
    value_start: int
    end: int


def find_value_span(raw: bytes, name: str) -> FieldSpan | None:
    """Return where the first header field of this name stands in ``raw``, or None.

    A field that does not end in the first ``MAX_HEADER_BYTES`` counts as none: nobody reads it.
    """
    match = _field_pattern(name).search(b"\n" + raw[: min(body_offset(raw), MAX_HEADER_BYTES)])
    if not match or match.end() > MAX_HEADER_BYTES:
        return None
    value_start = match.start(2) - 1  # the first line feed is no part of the message
    return FieldSpan(match.start(1) - 1, value_start, value_start + len(match[2].removesuffix(b"\r")))


@lru_cache(maxsize=16)
def _field_pattern(name: str) -> re.Pattern[bytes]:
    """Return a pattern for the whole field with the line feed before it: only line feeds are looked at closely."""
    return re.compile(rb"(?i)\n(" + re.escape(name.encode("ascii")) + rb")[ \t]*:([^\n]*+(?:\n[ \t][^\n]*+)*+)")


def strip_fields(raw: bytes, names: Iterable[str]) -> bytes:
    """Return ``raw`` without the header fields of these names: in any case, folded, repeated.

    Everything else is unchanged.
    """
    name_pattern, field_pattern = _field_patterns(tuple(names))
    end = body_offset(raw)
    if end <= PIECE_BYTES and not field_pattern.match(raw, 0, end) and not name_pattern.search(raw, 0, end):
        return raw  # as most mail: nothing is copied to find that out
    kept: list[bytes] = []
    content, kept_from = memoryview(raw), 0
    # A field may have 50 MB, which in one step hold the interpreter lock for 0.2 s, even in a thread.
    for start, stop in line_spans(raw, end):
        if kept_from == start > 0 and (rest := _REST_OF_FIELD.match(raw, start, stop)):
            kept_from = rest.end()  # the field that was removed last went on
        runs: list[memoryview] = []
        for match in field_pattern.finditer(raw, max(start, kept_from), stop):
            runs.append(content[kept_from : match.start()])
            kept_from = match.end()
        kept.append(b"".join(runs))  # all at once, millions of them would hold the interpreter lock
    return b"".join((*kept, content[kept_from:])) if kept_from else raw


@lru_cache(maxsize=16)
def _field_patterns(names: tuple[str, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return a pattern for the name of such a field with the line feed before it, and one for the whole field.

    Most mail has no such field. The first pattern finds that out faster, because it looks only after line feeds.
    A header is matched in pieces. For the second pattern a name is a field without a colon, too, where white space
    follows it up to the end of its piece or of the message.
    """
    name = rb"(?:" + b"|".join(re.escape(name.encode("ascii")) for name in names) + rb")[ \t]*+"
    whole = rb"^" + name + rb"(?::|(?<=[ \t])\Z)[^\n]*+(?:\n[ \t][^\n]*+)*+(?:\n|\Z)"
    return re.compile(rb"(?i)\n" + name + b":"), re.compile(rb"(?im)" + whole)


def prepend_fields(raw: bytes, new: Iterable[tuple[str, str]]) -> bytes:
    """Return ``raw`` with the ``new`` fields, pairs of name and value, above all others.

    Values are ASCII. A line end in a value is a fold, and a tab follows it.
    """
    header = "".join(f"{name}: {value}\r\n" for name, value in new)
    # To join a large message releases the interpreter lock, and to add it to its header does not.
    return b"".join((header.encode("ascii", "replace"), raw))


def guard_first_line(raw: bytes, name: str) -> bytes:
    """Return ``raw`` in a form above which fields can be put.

    If the first line is a continuation line of no field, it gets an empty field of this ``name`` to continue.
    Otherwise the sender of the message could write into the field that is put above it.
    """
    return name.encode("ascii") + b":\r\n" + raw if raw[:1] in {b" ", b"\t"} else raw
