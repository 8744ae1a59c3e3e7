"""Header fields on raw bytes: split, read, strip, prepend. Every byte not asked about stays as it is.

Rules: a message has CRLF line ends here (``normalize_line_ends`` makes it so); the header block ends at the first
empty line; a line that starts with a space or tab continues the field above it (RFC 5322 2.2.3). A line
without a colon is no field, and no reason to fail. Nothing here raises on bad mail.
"""

from __future__ import annotations

import binascii
import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np

from nbstream.mail.charsets import decode_text
from nbstream.mail.lines import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LINE_END = re.compile(rb"\r\n(?![ \t])")
_FIELD_END = re.compile(rb"\n(?![ \t])")
_NAME = re.compile(rb"[!-9;-~]+")
# The beginning of an encoded word, and what ends its text: "?=", or white space or the beginning of another word,
# and then it is none. Two patterns, since one would have to be possessive around a look-ahead: CPython before
# 3.11.5 matches that wrongly (gh-106052), and without possession a Subject of 32 kB took 6.6 s. Each beginning is
# read on to the next one at most.
_ENCODED_WORD = re.compile(rb"=\?([^?\s]{1,64})\?([bBqQ])\?")
_ENCODED_TEXT_END = re.compile(rb"\s|\?=|=\?(?!=)")
_SPACE_BETWEEN_ENCODED_WORDS = re.compile(rb"(\?=)\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?)")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
# Possessive, so that nothing is kept to come back to. Only parts without alternatives or look-ahead are repeated
# in this way: CPython before 3.11.5 matches others wrongly.
_PARAMETER = re.compile(rb""";\s*([^\s=;"]+)\s*=\s*(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"?|([^;\s]*))""", re.DOTALL)
# No name or value that is remembered is longer: a sender who fills that memory with his own costs a megabyte, and
# the time to read what he sent.
_MAX_CACHED_BYTES = 200


class HeaderField(NamedTuple):
    """A header field: its name in lower case, its raw value, folding included, and its name as it is written.

    A named tuple, since each message makes 20 of them: as a frozen dataclass one takes half as long again.
    """

    name: str
    value: bytes
    name_as_written: str = ""

    @property
    def text(self) -> str:
        """The value as text: unfolded, encoded words (RFC 2047) decoded, white space at the ends removed."""
        return decode_encoded_words(self.value)


def normalize_line_ends(raw: bytes) -> bytes:
    """``raw`` with CRLF line ends: a lone CR or LF becomes CRLF (RFC 5321 2.3.8).

    Large content in pieces, so that it can be left to a thread: 20 MB in one step held the interpreter for 60 ms.
    """
    if len(raw) <= PIECE_BYTES:
        return _normalize_piece(raw)
    rewritten: list[bytes] = []
    start, changed = 0, False
    while start < len(raw):
        end = start + PIECE_BYTES
        end += raw[end - 1 : end + 1] == b"\r\n"
        piece = raw[start:end]
        rewritten.append(_normalize_piece(piece))
        changed |= rewritten[-1] is not piece
        start = end
    return b"".join(rewritten) if changed else raw


def _normalize_piece(raw: bytes) -> bytes:
    if b"\r" not in raw:
        return raw.replace(b"\n", b"\r\n")
    # All pairs already? Counting the three kinds of line ends took three times as long as comparing the masks.
    data = np.frombuffer(raw, np.uint8)
    paired = (data[1:] == 10).tobytes() == (data[:-1] == 13).tobytes()
    if paired and raw[0] != 10 and raw[-1] != 13:
        return raw
    return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\r\n")


def body_offset(raw: bytes) -> int:
    """Where the body begins: behind the first empty line, or the end where there is none."""
    if raw.startswith(b"\r\n"):
        return 2
    blank = raw.find(b"\r\n\r\n")
    return len(raw) if blank < 0 else blank + 4


def parse_fields(raw: bytes, end: int) -> tuple[HeaderField, ...]:
    """The header fields in ``raw[:end]``, in order; lines that are no field are passed over."""
    found: list[HeaderField] = []
    for line in _LINE_END.split(raw[:end]):
        written, colon, value = line.partition(b":")
        if colon and (
            names := _parse_field_name_cached(written)
            if len(written) <= _MAX_CACHED_BYTES
            else _parse_field_name(written)
        ):
            found.append(HeaderField(names[0], value.strip(), names[1]))
    return tuple(found)


def _parse_field_name(written: bytes) -> tuple[str, str] | None:
    """A field's name in lower case and as it is written; None where it is none."""
    name = written.rstrip(b" \t")
    return (name.lower().decode("ascii"), name.decode("ascii")) if _NAME.fullmatch(name) else None


# Nearly all fields of mail are called by one of a few hundred names.
_parse_field_name_cached = lru_cache(maxsize=1024)(_parse_field_name)


def strip_fields(raw: bytes, names: Iterable[str]) -> bytes:
    """``raw`` without the header fields of these names: any case, folded, repeated. The rest is untouched."""
    named, field = _field_patterns(tuple(names))
    end = body_offset(raw)
    kept: list[bytes] = []
    changed = False
    # The empty line itself must not count as the end of a folded field's last line.
    for block in _field_blocks(raw[:end]):
        found = named.search(b"\n" + block) is not None
        kept.append(field.sub(b"", block) if found else block)
        changed |= found
    return b"".join((*kept, raw[end:])) if changed else raw


def _field_blocks(header: bytes) -> Iterator[bytes]:
    """Whole fields in blocks of PIECE_BYTES and the rest of the last field: few messages have two.

    20 MB of header fields in one step hold the interpreter for a quarter of a second, in a thread too.
    """
    start = 0
    while start < len(header):
        found = _FIELD_END.search(header, start + PIECE_BYTES)
        end = found.end() if found else len(header)
        yield header[start:end]
        start = end


@lru_cache(maxsize=16)
def _field_patterns(names: tuple[str, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What finds a field of these names by the line feed before it, and the whole field.

    Most mail has none, and the first looks only where a line feed is: a tenth of the second's time.
    """
    name = rb"(?:" + b"|".join(re.escape(each.encode("ascii")) for each in names) + rb")[ \t]*:"
    whole = rb"^" + name + rb"[^\n]*+(?:\n[ \t][^\n]*+)*+(?:\n|\Z)"
    return re.compile(rb"(?i)\n" + name), re.compile(rb"(?im)" + whole)


def prepend_fields(raw: bytes, new: Iterable[tuple[str, str]]) -> bytes:
    """``raw`` with the given ``(name, value)`` fields above all others.

    Values are ASCII; a line end in one is a fold, and followed by a tab.
    """
    head = "".join(f"{name}: {value}\r\n" for name, value in new)
    return head.encode("ascii", "replace") + raw


def guard_first_line(raw: bytes, name: str) -> bytes:
    """``raw`` so that fields can be put above it: a first line that continues nothing gets a field to continue.

    Else its sender could write into whatever field comes to stand above it.
    """
    return name.encode("ascii") + b":\r\n" + raw if raw[:1] in {b" ", b"\t"} else raw


def decode_encoded_words(value: bytes) -> str:
    """A header value as text (RFC 2047): unknown charsets and broken encodings fall back, never raise."""
    unfolded = value.replace(b"\r\n", b"").strip()
    if b"=?" not in unfolded:
        return unfolded.decode("ascii") if unfolded.isascii() else decode_text(unfolded, None)
    joined = _SPACE_BETWEEN_ENCODED_WORDS.sub(rb"\1", unfolded)
    pieces: list[str] = []
    position = 0
    start = _ENCODED_WORD.search(joined)
    while start:
        end = _ENCODED_TEXT_END.search(joined, start.end())
        if end is None:
            break
        if end[0] != b"?=":
            start = _ENCODED_WORD.search(joined, start.start() + 1)
            continue
        text = joined[start.end() : end.start()]
        pieces.append(decode_text(joined[position : start.start()], None))
        pieces.append(
            decode_text(_decode_word_bytes(start[2], text), start[1].decode("latin-1").partition("*")[0])
        )
        position = end.end()
        start = _ENCODED_WORD.search(joined, position)
    pieces.append(decode_text(joined[position:], None))
    return "".join(pieces)


def undecoded_words(value: bytes) -> str:
    """A header value as text in which encoded words stand as they are written."""
    return decode_text(value.replace(b"\r\n", b"").strip(), None)


def _decode_word_bytes(encoding: bytes, text: bytes) -> bytes:
    if encoding in b"qQ":
        return binascii.a2b_qp(text, header=True)
    return decode_base64(text)


def decode_base64(text: bytes) -> bytes:
    """Base64 as mail programs read it: foreign characters are passed over, a broken end is cut."""
    try:
        return binascii.a2b_base64(text)
    except binascii.Error:
        letters = re.sub(rb"[^A-Za-z0-9+/]", b"", text)
        usable = len(letters) - (len(letters) % 4 == 1)
        return binascii.a2b_base64(letters[:usable] + b"=" * (-usable % 4))


def parse_parameters(value: bytes) -> tuple[str, Mapping[str, str]]:
    """A structured value such as ``text/plain; charset=utf-8``: its first word and its parameters.

    Both in lower case but for the parameters' values. RFC 2231 continuations (``name*0=``) are joined and
    percent-encoded values decoded.
    """
    # Of the values in a stream of mail, four in five came before.
    return _parse_parameters_cached(value) if len(value) <= _MAX_CACHED_BYTES else _parse_parameters(value)


def _parse_parameters(value: bytes) -> tuple[str, Mapping[str, str]]:
    unfolded = value.replace(b"\r\n", b"")
    first, semicolon, _ = unfolded.partition(b";")
    main = first.strip().lower().decode("ascii", "replace")
    if not semicolon:
        return main, _NO_PARAMETERS
    plain: dict[str, bytes] = {}
    extended: dict[str, list[tuple[int, bytes, bool]]] = {}
    for match in _PARAMETER.finditer(unfolded):
        name = match[1].lower().decode("ascii", "replace")
        content = match[3] if match[2] is None else _ESCAPED.sub(rb"\1", match[2])
        base, star, section = name.partition("*")
        if not star:
            plain.setdefault(name, content)
            continue
        number = section.rstrip("*")
        order = int(number) if number.isdigit() and len(number) < 4 else 0
        extended.setdefault(base, []).append((order, content, name.endswith("*")))
    result = {name: decode_encoded_words(content) for name, content in plain.items()}
    for name, sections in extended.items():
        result.setdefault(name, _join_parameter_sections(sections))
    return main, MappingProxyType(result)


_parse_parameters_cached = lru_cache(maxsize=512)(_parse_parameters)
_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


def _join_parameter_sections(sections: list[tuple[int, bytes, bool]]) -> str:
    """The text of an RFC 2231 value: ``charset'language'percent-encoded``, perhaps in numbered sections."""
    charset: str | None = None
    content = b""
    for position, (_, piece, encoded) in enumerate(sorted(sections, key=lambda section: section[0])):
        value = piece
        if encoded:
            if position == 0 and piece.count(b"'") >= 2:
                name, _, value = piece.split(b"'", 2)
                charset = name.decode("latin-1")
            value = unquote_to_bytes(value)
        content += value
    return decode_text(content, charset)
