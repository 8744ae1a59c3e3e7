"""Parameters of structured header fields such as Content-Type: ``text/plain; charset=utf-8`` (RFC 2045, RFC 2231).

Rules: nothing here raises; any value is read in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

from nbstream.mail.charsets import decode_text
from nbstream.mail.encoded_words import decode_encoded_words

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
# Possessive, so that the pattern never goes back. Only groups without alternatives or look-ahead are repeated in
# this way, because CPython before 3.11.5 matches others wrongly.
_PARAMETER = re.compile(rb""";\s*([^\s=;"]+)\s*=\s*(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"?|([^;\s]*))""", re.DOTALL)
_COMMENT_MARK = re.compile(rb"(?<!\\)([()])")
# Longer values are not cached: a sender who fills the cache with values of his own costs a megabyte at most.
_MAX_CACHED_BYTES = 200
_MAX_VALUE_BYTES = 1000  # a file name has 255 bytes at most, three times as many where they are encoded


def parse_parameters(value: bytes) -> tuple[str, Mapping[str, str]]:
    """Return the first word of a structured value, and its parameters by name.

    The first word, without comments (RFC 5322 3.2.2), and the names are in lower case. RFC 2231 continuations
    (``name*0=``) are joined, and percent-encoded values are decoded.
    """
    # Of the values in a stream of mail, four in five were seen before.
    return _parse_parameters_cached(value) if len(value) <= _MAX_CACHED_BYTES else _parse_parameters(value)


class _Parameters(Mapping[str, str]):
    """Parameters that are decoded when they are asked for: of hundreds of them few are.

    Of a value ``_MAX_VALUE_BYTES`` are decoded. Only the boundary is decoded as a whole, because the parts and the
    key of a message depend on it.
    """

    def __init__(self, plain: dict[str, bytes], extended: dict[str, list[tuple[int, bytes, bool]]]) -> None:
        self._plain = plain
        self._extended = {name: sections for name, sections in extended.items() if name not in plain}
        self._decoded: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._decoded:
            self._decoded[name] = self._decode(name)
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._plain, *self._extended))

    def __len__(self) -> int:
        return len(self._plain) + len(self._extended)

    def _decode(self, name: str) -> str:
        if name in self._plain:
            value = self._plain[name]
            return decode_encoded_words(value if name == "boundary" else value[:_MAX_VALUE_BYTES])
        return _join_parameter_sections(self._extended[name])


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
    return main, _Parameters(plain, extended)


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
