"""The numbers of a message: sizes, counts, shares and the time of day, for the Gaussian event model.

Rules: every number is an integer from 0 to ``MAX_NUMBER`` on a fixed scale, so that sums and sums of squares are
exact and the same on every machine. A number that a message does not have, such as the hour where there is no
date, is left out and is not zero: each number has its own count of messages. Nothing here raises, whatever the
bytes; at most ``MAX_TEXT_BYTES`` of text are read.

Scales: an *amount* n is log2(1 + n) in fiftieths; a *share* of p per mille is log2(1 + p) in hundredths. Without
the logarithm both are far from a normal distribution: a Gaussian model of all numbers had 7.2 to 10.5 % of 1-AUC
on every fifth message of trec07p-20k with shares in plain per mille, and 6.1 to 6.4 % with their logarithm; see
docs/experiments.md, "Tokens".

- ``size`` (amount): bytes of all content after transfer decoding, so that no server on the way changes it
- ``parts`` (amount): nodes of the MIME tree
- ``links`` (amount): in the source of the text
- ``words`` (amount): runs of letters and digits in the visible text
- ``word.length``: mean number of characters of these words, in tenths
- ``markup`` (share): tags and style sheets, of the source of the text
- ``foreign``, ``digits``, ``exclamations`` (share): of the visible characters other than white space; foreign
  characters are those beyond ASCII
- ``capitals`` (share): of the visible ASCII letters
- ``subject.length`` (amount): characters
- ``recipients`` (amount): addresses in To and Cc
- ``hour.x``, ``hour.y``: the time of day in the sender's zone, as a point on a circle of radius 500 around (500,
  500), midnight at (1000, 500) and six in the morning at (500, 1000). On one axis 23:50 and 0:10 would have the
  largest distance and a mean at noon; on two axes they are neighbours, and their mean is between them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from nbstream.mail.charsets import decode_text
from nbstream.mail.encoded_words import decode_encoded_words
from nbstream.tokens.header_tokens import MAX_FIELDS, MAX_VALUE_BYTES
from nbstream.tokens.html import is_html

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.mail.header_fields import HeaderField
    from nbstream.mail.message import Message

MAX_NUMBER = 1000
MAX_TEXT_BYTES = 64 * 1024

NUMBER_NAMES: tuple[str, ...] = (
    *("size", "parts", "links", "words", "word.length", "markup", "foreign", "capitals", "digits", "exclamations"),
    *("subject.length", "recipients", "hour.x", "hour.y"),
)

# Classes of the bytes of UTF-8. A character is counted by its first byte, which is below 0x80 or at least 0xC0.
_CHARACTERS = frozenset((*range(33, 127), *range(0xC0, 256)))
_FOREIGN = frozenset(range(0xC0, 256))
_CAPITALS, _DIGITS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"), frozenset(b"0123456789")
_LETTERS = _CAPITALS | frozenset(b"abcdefghijklmnopqrstuvwxyz")
_WORD_CHARACTERS = _LETTERS | _DIGITS | _FOREIGN
_BYTE_CLASSES = np.array(
    [
        [
            c in byte_class
            for byte_class in (_CHARACTERS, _FOREIGN, _LETTERS, _CAPITALS, _DIGITS, b"!", _WORD_CHARACTERS)
        ]
        for c in range(256)
    ],
    dtype=np.int64,
)
_IS_WORD_BYTE = np.array([c in _WORD_CHARACTERS or c >= 0x80 for c in range(256)])

# The pattern consumes what it has scanned, so the text is read once.
_TAG = re.compile(rb"<[!/?A-Za-z][^>]*>?")
_STYLE, _STYLE_END = b"<style", b"</style"
_TIME = re.compile(rb"(?<!\d)([01]?\d|2[0-3]):([0-5]\d)")


def extract_numbers(message: Message) -> tuple[tuple[str, int], ...]:
    """Return (name, number) pairs for the numbers that ``message`` has, in the order of ``NUMBER_NAMES``."""
    if message.is_mail:
        size = sum(len(part.payload) for part in message.parts)
        numbers = _header_numbers(message.fields[:MAX_FIELDS]) | {
            "size": _log_amount(size),
            "parts": _log_amount(len(message.parts)),
        }
    else:
        numbers = {"size": _log_amount(min(len(message.raw), message.limits.look_bytes))}
    numbers |= _text_numbers(message)
    return tuple((name, value) for name in NUMBER_NAMES if (value := numbers.get(name)) is not None)


def _scaled_log2(n: int, unit: int) -> int:
    """Return ``unit * log2(1 + n)`` in integer arithmetic, linear between powers of two (Mitchell 1962).

    It grows with n, and is at most 0.087 units below the logarithm, apart from rounding.
    """
    exponent = (n + 1).bit_length() - 1
    return min(MAX_NUMBER, unit * exponent + (unit * (n + 1 - (1 << exponent)) >> exponent))


def _log_amount(n: int) -> int:
    return _scaled_log2(n, 50)


def _log_share(part: int, whole: int) -> int | None:
    """Return the share on its scale, or None where ``whole`` is 0."""
    return _scaled_log2(1000 * part // whole, 100) if whole else None


def _text_numbers(message: Message) -> dict[str, int | None]:
    """Return the numbers of the text, all from one count of its bytes in UTF-8."""
    length = links = 0
    visible: list[bytes] = []
    markup = 0
    for text, content_type in _text_parts(message):
        source = text.encode("utf-8", "replace")
        length += len(source)
        links += source.count(b"://") + source.count(b"www.") - source.count(b"//www.")
        if is_html(content_type, text[:200].lower()):
            source, removed_bytes = _without_markup(source)
            markup += removed_bytes
        visible.append(source)
    data = np.frombuffer(b" ".join(visible), np.uint8)
    characters, foreign, letters, capitals, digits, exclamations, word_characters = (
        int(n) for n in np.bincount(data, minlength=256) @ _BYTE_CLASSES
    )
    in_word = _IS_WORD_BYTE[data]
    words = int(np.count_nonzero(in_word[1:] > in_word[:-1])) + bool(in_word[:1].any())
    return {
        "links": _log_amount(links),
        "words": _log_amount(words),
        "word.length": min(MAX_NUMBER, 10 * word_characters // words) if words else None,
        "markup": _log_share(markup, length),
        "foreign": _log_share(foreign, characters),
        "capitals": _log_share(capitals, letters),
        "digits": _log_share(digits, characters),
        "exclamations": _log_share(exclamations, characters),
    }


def _text_parts(message: Message) -> Iterator[tuple[str, str]]:
    """Yield text and type of each text part, up to ``MAX_TEXT_BYTES`` in all; of a bare text its beginning."""
    if not message.is_mail:
        yield decode_text(message.raw[: min(MAX_TEXT_BYTES, message.limits.look_bytes)], None), "text/plain"
        return
    left = MAX_TEXT_BYTES
    for part in message.parts:
        if left and not part.is_container and part.content_type.startswith("text/"):
            content = part.payload[:left]
            left -= len(content)
            yield decode_text(content, part.charset), part.content_type


def _without_markup(source: bytes) -> tuple[bytes, int]:
    """Return an HTML source without style sheets and tags, and the number of bytes that were removed."""
    lower = source.lower()
    outside_styles: list[bytes] = []
    end = 0
    while (start := lower.find(_STYLE, end)) >= 0:
        outside_styles.append(source[end:start])
        end = lower.find(_STYLE_END, start)
        if end < 0:
            end = len(source)
    text, tags = _TAG.subn(b" ", b"".join((*outside_styles, source[end:])))
    return text, len(source) - len(text) + tags  # each tag became a space


def _header_numbers(fields: Sequence[HeaderField]) -> dict[str, int | None]:
    """Return length of the subject, number of recipients and time of day; no filter writes these fields."""
    first = {
        field.name: field.value[:MAX_VALUE_BYTES]
        for field in reversed(fields)
        if field.name in {"subject", "date"}
    }
    recipients = sum(field.value[:MAX_VALUE_BYTES].count(b"@") for field in fields if field.name in {"to", "cc"})
    subject, time = first.get("subject"), _TIME.search(first.get("date", b"")[:80])
    angle = math.tau * (int(time[1]) * 60 + int(time[2])) / 1440 if time else 0.0
    # No coordinate of a minute is within 0.001 of a rounding boundary, so it is the same on every machine.
    return {
        "subject.length": None if subject is None else _log_amount(len(decode_encoded_words(subject))),
        "recipients": _log_amount(recipients),
        "hour.x": round(500 + 500 * math.cos(angle)) if time else None,
        "hour.y": round(500 + 500 * math.sin(angle)) if time else None,
    }
