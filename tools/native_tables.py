"""Writes the tables of the native library that come from Python: characters, charsets, character references.

``python -m tools.native_tables`` writes the files; a test compares them with what each interpreter says. Of
characters that were assigned after Unicode 14.0 the tables say that they are not known.
"""

from __future__ import annotations

import encodings
import html
import pkgutil
import unicodedata
from collections.abc import Mapping, Sequence
from encodings.aliases import aliases
from functools import cache
from html.entities import html5
from itertools import product
from pathlib import Path

from nbstream.mail import charsets
from nbstream.tokens.unicode import only_known
from nbstream.tokens.words import _FOLDING_BOUNDARY

_FOLDER = Path(__file__).parent.parent / "native" / "src"
REFERENCES_FILE = _FOLDER / "tokens" / "html_references.rs"
CHARACTERS_FILE = _FOLDER / "tokens" / "characters.rs"
NOT_ASCII_FILE = _FOLDER / "mail" / "charsets" / "not_ascii.rs"
SINGLE_BYTES_FILE = _FOLDER / "mail" / "charsets" / "single_byte_tables.rs"

_HEAD = "// Written by `python -m tools.native_tables`.\n\n"
_LOW_NUMBERS = 0xA0
_END = 0x20000
"""The first character that is in no table: beyond are rare ideographs, and what nobody has assigned."""
_BLOCK = 64
_SINGLE_BYTE_CODECS = ("cp125", "cp437", "cp850", "cp852", "cp866", "cp874", "iso8859-", "koi8-", "mac-roman")

# Where the folded forms of characters stand in the table: letters, marks and full-width forms that are frequent in
# mail. Python folds the others.
_MAPPED = (
    range(0x2400),
    range(0x2C00, 0x2F00),
    range(0x3000, 0x3100),
    range(0xFB00, 0xFB07),
    range(0xFF01, 0xFF5F),
)

# The bits of a class; ``characters.rs`` has them under these names.
_KNOWN, _WORD, _SPACE, _BOUNDARY, _NORMAL, _KEPT, _LOWERED, _MAPPED_BIT = (1 << bit for bit in range(8))
_BITS = {
    "KNOWN": (_KNOWN, "The character was assigned before Unicode 14.0, or is not assigned yet."),
    "WORD": (_WORD, "`\\w` of Python's `re`."),
    "SPACE": (_SPACE, "`str.isspace`."),
    "BOUNDARY": (_BOUNDARY, "`words._FOLDING_BOUNDARY`."),
    "NORMAL": (_NORMAL, "NFKC keeps the character."),
    "KEPT": (_KEPT, "Folding keeps the character."),
    "LOWERED": (_LOWERED, "Folding makes the lower case of the character."),
    "MAPPED": (_MAPPED_BIT, "`FOLDED` has what folding makes of the character."),
}


def references_source() -> str:
    """Return the source of ``html_references.rs``."""
    legacy = max(len(name) for name in html5 if not name.endswith(";"))
    names = "".join(f"    ({_rust_string(name)}, {_rust_string(html5[name])}),\n" for name in sorted(html5))
    low = "".join(f"    {_rust_string(html.unescape(f'&#{number};'))},\n" for number in range(_LOW_NUMBERS))
    return (
        f"//! The character references of HTML: `html.entities.html5`, and numbers below {_LOW_NUMBERS:#x}.\n"
        f"{_HEAD}"
        "/// The longest name without a semicolon.\n"
        f"pub const MAX_LEGACY_BYTES: usize = {legacy};\n\n"
        "/// The names after the `&`, in the order of their bytes, with what they stand for.\n"
        f"#[rustfmt::skip]\npub static HTML5: [(&str, &str); {len(html5)}] = [\n{names}];\n\n"
        "/// What numbers stand for; some are characters of Windows-1252.\n"
        f"#[rustfmt::skip]\npub static LOW_NUMBERS: [&str; {_LOW_NUMBERS:#x}] = [\n{low}];\n"
    )


def _charset_names() -> set[str]:
    modules = (module.name for module in pkgutil.iter_modules(encodings.__path__))
    return {*aliases, *modules, *charsets._ALIASES}


def not_ascii_source() -> str:
    """Return the source of ``not_ascii.rs``."""
    names = {
        encodings.normalize_encoding(name).replace(".", "_")
        for name in _charset_names()
        if (codec := charsets._codec_name(name)) and not _has_ascii(codec)
    }
    return (
        "//! Charsets in which ASCII text is not itself.\n"
        f"{_HEAD}"
        '/// The names as Python compares them, with "_" for ".", in order.\n'
        f"#[rustfmt::skip]\npub static NAMES: [&[u8]; {len(names)}] = [\n"
        + "".join(f'    b"{name}",\n' for name in sorted(names))
        + "];\n"
    )


# Pairs, because some charsets shift at two characters: "~{" in HZ, "+A" in UTF-7.
_ASCII_SAMPLES = [bytes(pair) for size in (1, 2) for pair in product(range(128), repeat=size)]


@cache
def _has_ascii(codec: str) -> bool:
    return all(charsets.decode_text(sample, codec) == sample.decode("ascii") for sample in _ASCII_SAMPLES)


def single_bytes_source() -> str:
    """Return the source of ``single_byte_tables.rs``."""
    names = _charset_names()
    names |= {name.replace("_", "-") for name in names}
    tables: dict[str, str] = {}
    codecs: dict[str, str] = {}
    for name in sorted(names):
        codec = charsets._codec_name(name)
        if codec and codec.startswith(_SINGLE_BYTE_CODECS):
            codecs[name] = codec
            tables[codec] = charsets.decode_text(bytes(range(256)), name)
    numbers = {codec: number for number, codec in enumerate(tables)}
    return (
        "//! The charsets of single bytes that are frequent in mail; their lower half is ASCII.\n"
        f"{_HEAD}"
        "/// The names in lower case, in order, with the numbers of their tables.\n"
        f"#[rustfmt::skip]\npub static NAMES: [(&str, usize); {len(codecs)}] = [\n"
        + "".join(f'    ("{name}", {numbers[codec]}),\n' for name, codec in codecs.items())
        + "];\n\n"
        "/// The characters of the bytes from 0x80 on.\n"
        f"#[rustfmt::skip]\npub static TABLES: [[char; 128]; {len(tables)}] = [\n"
        + "".join(f"    // {codec}\n    [{_rust_characters(table[128:])}],\n" for codec, table in tables.items())
        + "];\n"
    )


def _rust_characters(text: str) -> str:
    return ", ".join(f"'\\u{{{ord(character):x}}}'" for character in text)


def characters_source() -> str:
    """Return the source of ``characters.rs``."""
    folded: dict[str, str] = {}
    seconds = _second_characters()
    classes = [_character_class(chr(number), seconds, folded) for number in range(_END)]
    letters = {bits: chr(ord("A") + place) for place, bits in enumerate(dict.fromkeys(classes))}
    text = "".join(letters[bits] for bits in classes)
    blocks: dict[str, int] = {}
    numbers = [blocks.setdefault(text[start : start + _BLOCK], len(blocks)) for start in range(0, _END, _BLOCK)]
    bits_source = "".join(
        f"/// {meaning}\npub const {name}: u8 = {bit:#04x};\n" for name, (bit, meaning) in _BITS.items()
    )
    return (
        "//! What characters are, as Python says it: `classes` are looked up in two steps.\n"
        f"{_HEAD}{bits_source}\n"
        "/// The first character that has no class here.\n"
        f"pub const END: usize = {_END:#x};\n"
        f"pub const BLOCK: usize = {_BLOCK};\n\n"
        "/// The block of each stretch of `BLOCK` characters.\n"
        f"#[rustfmt::skip]\npub static BLOCK_NUMBERS: [u16; {len(numbers)}] = [\n{_rows(numbers)}];\n\n"
        "/// Each character of a block stands for a class: its number in `CLASSES` counts from `A`.\n"
        f"#[rustfmt::skip]\npub static BLOCKS: [&[u8; BLOCK]; {len(blocks)}] = [\n"
        + "".join(f'    b"{block.translate(_ESCAPED)}",\n' for block in blocks)
        + "];\n\n"
        "#[rustfmt::skip]\n"
        f"#[rustfmt::skip]\npub static CLASSES: [u8; {len(letters)}] = [\n"
        f"{_rows([f'{bits:#04x}' for bits in letters])}];\n\n"
        "/// Characters with the bit `MAPPED`, in order, and what NFKC and case folding make of them.\n"
        f"#[rustfmt::skip]\npub static FOLDED: [(char, &str); {len(folded)}] = [\n"
        + "".join(
            f"    ('\\u{{{ord(character):x}}}', {_rust_string(form)}),\n" for character, form in folded.items()
        )
        + "];\n"
    )


_ESCAPED = {ord("\\"): "\\\\"}


def _second_characters() -> frozenset[str]:
    """Return the characters that may unite with the character before them."""
    pairs = (unicodedata.decomposition(chr(number)).split() for number in range(0x110000))
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    hangul = {chr(number) for number in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    return frozenset(seconds | hangul)


def _character_class(character: str, seconds: frozenset[str], folded: dict[str, str]) -> int:
    """Return the bits of a character, and put what folding makes of it into ``folded`` where that is mapped."""
    if 0xD800 <= ord(character) < 0xE000 or only_known(character) != character:
        return 0
    bits = _KNOWN
    if character.isalnum() or character == "_":
        bits |= _WORD
    if character.isspace():
        bits |= _SPACE
    if _FOLDING_BOUNDARY.match(character):
        bits |= _BOUNDARY
    normal = unicodedata.normalize("NFKC", character)
    if normal == character:
        bits |= _NORMAL
    first = unicodedata.normalize("NFKD", character)[0]
    if unicodedata.combining(first) or first in seconds:
        return bits  # what it becomes depends on the character before it
    form = normal.casefold()
    if form == normal == character:
        return bits | _KEPT
    if form == character.lower() and normal == character and len(form) == 1:
        return bits | _LOWERED
    # Behind the limit of folding case alone is folded. The library knows that where it is the lower case.
    is_simple = normal == character or character.casefold() == character.lower()
    if is_simple and any(ord(character) in numbers for numbers in _MAPPED):
        folded[character] = form
        return bits | _MAPPED_BIT
    return bits


def _rows(items: Sequence[object], width: int = 24) -> str:
    return "".join(
        f"    {', '.join(map(str, items[start : start + width]))},\n" for start in range(0, len(items), width)
    )


def _rust_string(text: str) -> str:
    return '"' + "".join(_rust_character(character) for character in text) + '"'


def _rust_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if " " <= character <= "~" else f"\\u{{{ord(character):x}}}"


def sources() -> Mapping[Path, str]:
    """Return the files and their content."""
    return {
        REFERENCES_FILE: references_source(),
        CHARACTERS_FILE: characters_source(),
        NOT_ASCII_FILE: not_ascii_source(),
        SINGLE_BYTES_FILE: single_bytes_source(),
    }


if __name__ == "__main__":
    for file, source in sources().items():
        file.write_text(source, encoding="ascii")
