"""Messages that are made to cost much: what they consist of, and the ordinary text that they are compared with.

A recipe says in a few words how a message of any size is made: a unit that is repeated, in the body, in the
header, in the header of each part, or as the content of many parts. ``KNOWN`` are those that once cost more than
three times as much as ordinary text of their size, or that other filters had trouble with.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from nbstream.policy.header import MessageReader
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions

SIZE = 950_000
"""Bytes of a message that is measured: just below ``MessageLimits.look_bytes``."""

MAX_RATIO = 5.0
"""How many times the cost of ordinary text of the same size a message of ``SIZE`` may cost; 4.6 were seen."""

_TOKENIZER = Tokenizer(TokenizerOptions(trusted_authserv_ids=frozenset({"mx.example.org"})))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_HEAD = (
    b"Received: from a.example by mx.example.org; Mon, 5 Jan 2026 10:00:00 +0100\r\n"
    b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: Report\r\n"
    b"Date: Mon, 5 Jan 2026 10:00:00 +0100\r\nMessage-ID: <r1@example.org>\r\nMIME-Version: 1.0\r\n"
)


class Slot(StrEnum):
    """What is drawn anew for each repetition of a unit, so that no two of them are equal."""

    LETTER = "letter"
    DIGIT = "digit"
    BYTE = "byte"
    """Any byte that is not ASCII."""
    ANY_BYTE = "any byte"
    CHARACTER = "character"
    """Any character of the basic plane, in UTF-8."""


class Place(StrEnum):
    """Where the units stand."""

    BODY = "body"
    FIELDS = "fields"
    """Each unit is in the header; the body is empty."""
    ONE_FIELD = "one field"
    """All units are the value of one field with ``Recipe.field`` as its name."""
    PARTS = "parts"
    """The units are the content of ``Recipe.parts`` parts."""
    PART_FIELDS = "part fields"
    """The units are the end of the header of each of ``Recipe.parts`` parts."""
    NESTED = "nested"
    """The units stand within ``Recipe.parts`` levels of multipart/mixed, with the boundaries "b", "bb" ..."""
    MESSAGES = "messages"
    """The units stand in ``Recipe.parts`` levels of message/rfc822."""


Unit: TypeAlias = tuple[bytes | Slot, ...]


@dataclass(frozen=True)
class Recipe:
    """How a message is made; ``unit`` is repeated until the message has its size."""

    unit: Unit
    content_type: str = "text/plain"
    charset: str = "utf-8"
    encoding: str = "8bit"
    place: Place = Place.BODY
    parts: int = 1
    field: str = "X-Field"

    def message(self, size: int, seed: int = 1) -> bytes:
        """Return the message; it has about ``size`` bytes."""
        leaf = (
            f'Content-Type: {self.content_type}; charset="{self.charset}"\r\n'
            f"Content-Transfer-Encoding: {self.encoding}\r\n"
        ).encode()
        share = size // self.parts if self.place in {Place.PARTS, Place.PART_FIELDS} else size
        units = _repeated(self.unit, share, random.Random(seed))
        match self.place:
            case Place.BODY:
                return _HEAD + leaf + b"\r\n" + units
            case Place.FIELDS:
                return _HEAD + units + b"\r\n" + leaf + b"\r\n"
            case Place.ONE_FIELD:
                return _HEAD + self.field.encode() + b": " + units + b"\r\n" + leaf + b"\r\n"
            case Place.PARTS:
                part = b"--b\r\n" + leaf + b"\r\n" + units + b"\r\n"
            case Place.PART_FIELDS:
                part = b"--b\r\n" + leaf + units + b"\r\n\r\n.\r\n"
            case Place.NESTED:
                boundaries = [b"b" * (level + 1) for level in range(self.parts)]
                level = b"Content-Type: multipart/mixed; boundary=%b\r\n\r\n--%b\r\n"
                levels = b"".join(level % (boundary, boundary) for boundary in boundaries)
                return _HEAD + levels + leaf + b"\r\n" + units
            case Place.MESSAGES:
                return _HEAD + b"Content-Type: message/rfc822\r\n\r\n" * self.parts + leaf + b"\r\n" + units
        return _HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * self.parts + b"--b--\r\n"


def _repeated(unit: Unit, size: int, draw: random.Random) -> bytes:
    if not any(isinstance(piece, Slot) for piece in unit):
        whole = b"".join(piece for piece in unit if not isinstance(piece, Slot))
        return whole * (size // max(1, len(whole)))
    pieces: list[bytes] = []
    length = 0
    while length < size:
        repetition = b"".join(_drawn(piece, draw) if isinstance(piece, Slot) else piece for piece in unit)
        length += len(repetition)
        pieces.append(repetition)
    return b"".join(pieces)


def _drawn(slot: Slot, draw: random.Random) -> bytes:
    match slot:
        case Slot.LETTER:
            return draw.choice(_LETTERS).encode()
        case Slot.DIGIT:
            return b"%d" % draw.randrange(10)
        case Slot.BYTE:
            return bytes([draw.randrange(128, 256)])
        case Slot.ANY_BYTE:
            return draw.randbytes(1)
    return chr(draw.choice((draw.randrange(0xA0, 0xD800), draw.randrange(0xF900, 0xFFFE)))).encode()


def ordinary_text(size: int = SIZE) -> bytes:
    """Return a message of ordinary text: words of which some are frequent, and few letters beyond ASCII."""
    draw = random.Random(1)
    words = ["".join(draw.choices(_LETTERS, k=draw.randint(2, 11))) for _ in range(40_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    chosen = draw.choices(words, weights, k=size // 7)
    lines: list[str] = []
    for start in range(0, len(chosen), 11):
        line = chosen[start : start + 11]
        line[0] = line[0].capitalize()
        line[draw.randrange(len(line))] += draw.choice(
            (",", ".", "!", "'s", f" {draw.randrange(3000)}", "é", " \u2013")
        )
        lines.append(" ".join(line))
    return Recipe((b"\r\n".join(line.encode() for line in lines)[:size],)).message(size)


def cpu_seconds(raw: bytes, tries: int = 3, tokenizer: Tokenizer = _TOKENIZER) -> float:
    """Return the CPU time of this thread for the keys and the tokens of ``raw``: the least of the tries."""
    return min(_cpu_seconds(raw, tokenizer) for _ in range(tries))


def _cpu_seconds(raw: bytes, tokenizer: Tokenizer) -> float:
    started = time.thread_time()
    tokenizer.tokenize(MessageReader().read_incoming(raw))
    return time.thread_time() - started


_PART_HEADER = Recipe((b"",), place=Place.PART_FIELDS, parts=190)
_HTML = Recipe((b"",), "text/html")

KNOWN: dict[str, Recipe] = {
    "U+FDFA as UTF-16": Recipe(("\ufdfa".encode("utf-16-le"),), charset="utf-16-le"),
    "U+FDFA as UTF-8": Recipe(("\ufdfa".encode(),)),
    "U+FDFA in 190 parts": Recipe(("\ufdfa".encode(),), place=Place.PARTS, parts=190),
    "D3 as TIS-620": Recipe((b"\xd3",), charset="tis-620"),
    "links of references": replace(_HTML, unit=(b"<a href=http://" + b"&#65" * 70 + b">",)),
    "references": replace(_HTML, unit=(b"&#65",)),
    "half-width kana": Recipe((b"\xb6",), charset="shift_jis"),
    "half-width kana with marks": Recipe((b"\xb6\xde",), charset="shift_jis"),
    "random bytes": Recipe((Slot.ANY_BYTE,)),
    "random bytes as UTF-7": Recipe((Slot.ANY_BYTE,), charset="utf-7"),
    "random bytes as Shift_JIS": Recipe((Slot.ANY_BYTE,), charset="shift_jis"),
    "random bytes as Shift_JIS in a calendar": Recipe((Slot.ANY_BYTE,), "text/calendar", "shift_jis"),
    "U+FDFA in an unknown charset and many parts": Recipe(
        ("\ufdfa<".encode(),), "multipart/mixed", "bz2-codec", place=Place.NESTED, parts=190
    ),
    "random bytes in 60 parts": Recipe((Slot.ANY_BYTE,), place=Place.PARTS, parts=60),
    "BD as Windows-1252": Recipe((b"\xbd",), charset="windows-1252"),
    "D2 as Windows-1253": Recipe((b"\xd2",), charset="windows-1253"),
    "C0 as Windows-1253": Recipe((b"\xc0",), charset="windows-1253"),
    "DD as ISO-8859-9": Recipe((b"\xdd",), charset="iso-8859-9"),
    "lone surrogates": Recipe((b"\x00\xdc",), charset="utf-16-le"),
    "one run of UTF-7": Recipe((b"+AOQ",), charset="utf-7"),
    "wrong UTF-7": Recipe((b"\x9c",), charset="utf-7"),
    "wrong UTF-32": Recipe((b"\xff\xff\xff\xff",), charset="utf-32-be"),
    "unknown references": replace(_HTML, unit=(b"&ab",)),
    "unknown references, all different": replace(_HTML, unit=(b"&", *(Slot.LETTER,) * 4, b";")),
    "numbers, all different": replace(_HTML, unit=(b"&#", b"1", *(Slot.DIGIT,) * 4)),
    "words of one letter and a mark": Recipe((b"\xe0\xb7",), charset="windows-1251"),
    "15 combining marks": Recipe((("\u0301" * 15 + "a").encode(),)),
    "Chinese characters, all different": Recipe((Slot.CHARACTER,)),
    "digits as UTF-16 in 190 parts": Recipe(
        (Slot.DIGIT,) * 3, "text/html", "utf-16-be", place=Place.PARTS, parts=190
    ),
    "numbers as HZ": Recipe(
        (b"&#", b"1", *(Slot.DIGIT,) * 4), "text/html", "hz-gb-2312", "quoted-printable", Place.NESTED, 5
    ),
    "half-width kana in 60 parts": Recipe((b"\xb6",), charset="shift_jis", place=Place.PARTS, parts=60),
    "tags": replace(_HTML, unit=(b"<b>",)),
    "attributes": replace(_HTML, unit=(b"a=1 ",), content_type="text/html"),
    "attributes with quotes": replace(_HTML, unit=(b"<a b='c' d>",)),
    "an open quote": replace(_HTML, unit=(b'<a b="c',)),
    "names and signs": replace(_HTML, unit=(b"<a =b= c",)),
    "spaces in tags": replace(_HTML, unit=(b"<a" + b" " * 500 + b"b",)),
    "comments": replace(_HTML, unit=(b"<!-->",)),
    "dashes of comments": replace(_HTML, unit=(b"<!----",)),
    "scripts": replace(_HTML, unit=(b"<script><!--<script>",)),
    "end tags of other names": replace(_HTML, unit=(b"<style></stylex",)),
    "hiding styles": replace(_HTML, unit=(b"display:",)),
    "invisible characters": Recipe(("a\u200b".encode(),)),
    "invisible characters alone": Recipe(("\u200b".encode(),)),
    "decorated letters": Recipe(("a\u0336".encode(),)),
    "vowel signs": Recipe(("\u0915\u093f".encode(),)),
    "relative links": replace(_HTML, unit=(b"'//a.b",)),
    "backslashes": replace(_HTML, unit=(b":\\\\",)),
    "padding": Recipe((b"QQ==",), encoding="base64"),
    "padding of no group": Recipe((b"Q=",), encoding="base64"),
    "blanks behind soft breaks": Recipe((b"= \r\n",), encoding="quoted-printable"),
    "signs and blanks": Recipe((b"=" + b" " * 200,), encoding="quoted-printable"),
    "comments of an encoding": replace(_PART_HEADER, unit=(b"Content-Transfer-Encoding: (((()\r\n",)),
    "neighbouring encoded words": Recipe((b" =?utf-8?q?=C3?=",), place=Place.ONE_FIELD, field="Subject"),
    "links": replace(_HTML, unit=(b"://", Slot.LETTER, b" ")),
    "Content-ID links": replace(_HTML, unit=(b"<img src=cid:", *(Slot.LETTER,) * 4, b">")),
    "alternative parts": Recipe((b"word ",), place=Place.PARTS, parts=190),
    "lines that begin like a delimiter": Recipe((b"\r\n--b x",), place=Place.NESTED, parts=19),
    "lines that begin like each delimiter": Recipe((b"\r\n--" + b"b" * 25,), place=Place.NESTED, parts=19),
    "delimiters": Recipe((b"\r\n--b",), place=Place.NESTED, parts=19),
    "messages in messages": Recipe((b"word ",), place=Place.MESSAGES, parts=19),
    "fields of a part": replace(_PART_HEADER, unit=(b"a:\r\n",)),
    "parameters of a part": replace(_PART_HEADER, unit=(b"Content-Disposition: x;" + b"a=b;" * 300 + b"\r\n",)),
    "RFC 2231 continuations": replace(
        _PART_HEADER,
        unit=(b"Content-Disposition: x;" + b"".join(b"filename*%d*=%%41;" % n for n in range(200)) + b"\r\n",),
    ),
    "encoded words in file names": replace(
        _PART_HEADER, unit=(b'Content-Disposition: x; filename="' + b"=?u?q?a?= " * 400 + b'"\r\n',)
    ),
    "encoded words in a subject": Recipe((b"=?u?q?a?= ",), place=Place.ONE_FIELD, field="Subject"),
    "encoded words in From fields": Recipe((b"From: =?utf-8?q?=41?= <a@b.example>\r\n",), place=Place.FIELDS),
    "comments in comments": Recipe((b"(",), place=Place.ONE_FIELD, field="Authentication-Results"),
    "comments in Received fields": Recipe((b"Received: " + b"(" * 500 + b"\r\n",), place=Place.FIELDS),
    "a header of a megabyte": Recipe((Slot.LETTER, Slot.LETTER, b": x\r\n"), place=Place.FIELDS),
    "one field of a megabyte": Recipe((b"a@b.example, ",), place=Place.ONE_FIELD, field="To"),
    "wrong base64": Recipe((b"A\xffBCD\xff",), encoding="base64"),
    "quoted-printable": Recipe((b"=",), encoding="quoted-printable"),
    "quoted-printable of U+FDFA": Recipe((b"=EF=B7=BA",), encoding="quoted-printable"),
    "base64 lines of one letter": Recipe((b"A\r\n",), encoding="base64"),
    "line feeds": Recipe((b"\n",)),
    "carriage returns": Recipe((b"\r",)),
}
"""The messages that must not cost more than ``MAX_RATIO`` times as much as ordinary text."""
