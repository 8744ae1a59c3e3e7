"""Parameters of structured header fields such as Content-Type: ``text/plain; charset=utf-8`` (RFC 2045, RFC 2231).

Rules: nothing here raises; any value is read in one pass.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from nbstream.mail.charsets import decode_text
from nbstream.mail.encoded_words import decode_encoded_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
# Possessive, so that the pattern never goes back. Only groups without alternatives or look-ahead are repeated in
# this way, because CPython before 3.11.5 matches others wrongly.
_PARAMETER = re.compile(rb""";\s*([^\s=;"]+)\s*=\s*(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"?|([^;\s]*))""", re.DOTALL)
# Longer values are not cached: a sender who fills the cache with values of his own costs a megabyte at most.
_MAX_CACHED_BYTES = 200


def parse_parameters(value: bytes) -> tuple[str, Mapping[str, str]]:
    """Return the first word of a structured value, and its parameters by name.

    The first word and the names are in lower case. RFC 2231 continuations (``name*0=``) are joined, and
    percent-encoded values are decoded.
    """
    # Of the values in a stream of mail, four in five were seen before.
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
    parameters = {name: decode_encoded_words(content) for name, content in plain.items()}
    for name, sections in extended.items():
        parameters.setdefault(name, _join_parameter_sections(sections))
    return main, MappingProxyType(parameters)


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
