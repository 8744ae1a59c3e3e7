"""Writes the tables of the native library that come from Python: characters, charsets, references, fields.

``python -m tools.native_tables`` writes the files; a test compares them with what each interpreter says. Of
characters that were assigned after Unicode 14.0 the tables say that they are not known.
"""

from __future__ import annotations

import encodings
import html
import pkgutil
import re
import unicodedata
from collections.abc import Mapping, Sequence
from encodings.aliases import aliases
from functools import cache
from html.entities import html5
from itertools import product
from pathlib import Path

from nbstream.mail import added_fields, charsets
from nbstream.tokens.html import _NAMES
from nbstream.tokens.unicode import MARKS, only_known
from nbstream.tokens.words import _FOLDING_BOUNDARY

_FOLDER = Path(__file__).parent.parent / "native" / "src"
REFERENCES_FILE = _FOLDER / "tokens" / "html_references.rs"
CHARACTERS_FILE = _FOLDER / "tokens" / "characters.rs"
NORMALIZATION_FILE = _FOLDER / "tokens" / "normalization_tables.rs"
NOT_ASCII_FILE = _FOLDER / "mail" / "charsets" / "not_ascii.rs"
ADDED_FIELDS_FILE = _FOLDER / "mail" / "added_fields.rs"
SINGLE_BYTES_FILE = _FOLDER / "mail" / "charsets" / "single_byte_tables.rs"

_HEAD = "// Written by `python -m tools.native_tables`.\n\n"
_LOW_NUMBERS = 0xA0
_END = 0x110000
_BLOCK = 128
_SURROGATES = range(0xD800, 0xE000)
_HANGUL = range(0xAC00, 0xD7A4)
_SINGLE_BYTE_CODECS = ("cp125", "cp437", "cp850", "cp852", "cp866", "cp874", "iso8859-", "koi8-", "mac-roman")

# Where the folded forms of characters stand in a table of their own: letters, marks and full-width forms that are
# frequent in mail. Others are decomposed first.
_MAPPED = (
    range(0x2400),
    range(0x2C00, 0x2F00),
    range(0x3000, 0x3100),
    range(0xFB00, 0xFB07),
    range(0xFF01, 0xFFA0),
)

_IS_WORD_MARK = re.compile(f"[{MARKS}]")

# The bits of a class; ``characters.rs`` has them under these names.
_KNOWN, _WORD, _SPACE, _BOUNDARY, _NORMAL, _KEPT, _LOWERED, _MAPPED_BIT = (1 << bit for bit in range(8))
_DECOMPOSED, _LOWER, _CASELESS, _MARK, _SECOND, _WORD_MARK = (1 << bit for bit in range(8, 14))
_BITS = {
    "KNOWN": (_KNOWN, "The character is not one that was assigned after Unicode 14.0: see `tokens/unicode.py`."),
    "WORD": (_WORD, "`\\w` of Python's `re`."),
    "SPACE": (_SPACE, "`str.isspace`."),
    "BOUNDARY": (_BOUNDARY, "`words._FOLDING_BOUNDARY`."),
    "NORMAL": (_NORMAL, "The quick check of NFKC says yes: see `normalization::push_normalized`."),
    "KEPT": (_KEPT, "Folding keeps the character."),
    "LOWERED": (_LOWERED, "Folding makes the lower case of the character."),
    "MAPPED": (_MAPPED_BIT, "`FOLDED` has what folding makes of the character."),
    "DECOMPOSED": (_DECOMPOSED, "`normalization_tables::DECOMPOSED` has the characters that NFKD makes of it."),
    "LOWER": (_LOWER, "The character is its own lower case."),
    "CASELESS": (_CASELESS, "Folding of case keeps the character."),
    "MARK": (_MARK, "`normalization_tables::MARKS` has the combining class of the character."),
    "SECOND": (_SECOND, "The character may be the second one of a canonical composition."),
    "WORD_MARK": (_WORD_MARK, "`unicode.MARKS`."),
}


def references_source() -> str:
    """Return the source of ``html_references.rs``."""
    names = "".join(f"    ({_rust_string(name)}, {_rust_string(_NAMES[name])}),\n" for name in sorted(_NAMES))
    without = [name for name in sorted(html5) if not name.endswith(";")]
    low = "".join(f"    {_rust_string(html.unescape(f'&#{number};'))},\n" for number in range(_LOW_NUMBERS))
    return (
        f"//! The character references of HTML: `html._NAMES`, and numbers below {_LOW_NUMBERS:#x}.\n"
        f"{_HEAD}"
        "/// The names after the `&`, in the order of their bytes, with what they stand for.\n"
        f"#[rustfmt::skip]\npub static HTML5: [(&str, &str); {len(_NAMES)}] = [\n{names}];\n\n"
        "/// The names without a semicolon, in order.\n"
        f"#[rustfmt::skip]\npub static WITHOUT_SEMICOLON: [&str; {len(without)}] = [\n"
        f"{_rows([_rust_string(name) for name in without], 8)}];\n\n"
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
        f"/// {meaning}\npub const {name}: u16 = {bit:#06x};\n" for name, (bit, meaning) in _BITS.items()
    )
    return (
        "//! What characters are, as Python says it: `unicode::class` looks it up in two steps.\n"
        f"{_HEAD}{bits_source}\n"
        f"pub const BLOCK: usize = {_BLOCK};\n\n"
        "/// The block of each stretch of `BLOCK` characters.\n"
        f"#[rustfmt::skip]\npub static BLOCK_NUMBERS: [u16; {len(numbers)}] = [\n{_rows(numbers)}];\n\n"
        "/// Each character of a block stands for a class: its number in `CLASSES` counts from `A`.\n"
        f"#[rustfmt::skip]\npub static BLOCKS: [&[u8; BLOCK]; {len(blocks)}] = [\n"
        + "".join(f'    b"{block.translate(_ESCAPED)}",\n' for block in blocks)
        + "];\n\n"
        "/// The classes: the bits that are set for a character.\n"
        f"#[rustfmt::skip]\npub static CLASSES: [u16; {len(letters)}] = [\n"
        f"{_rows([f'{bits:#06x}' for bits in letters])}];\n\n"
        "/// Characters with the bit `MAPPED`, in order, and what NFKC and case folding make of them.\n"
        f"#[rustfmt::skip]\npub static FOLDED: [(char, &str); {len(folded)}] = [\n"
        + "".join(
            f"    ('\\u{{{ord(character):x}}}', {_rust_string(form)}),\n" for character, form in folded.items()
        )
        + "];\n"
    )


_ESCAPED = {ord("\\"): "\\\\"}


@cache
def _known() -> bytes:
    """Return a byte for each character: 1 for those that are known and no surrogates."""
    characters = "".join(" " if number in _SURROGATES else chr(number) for number in range(_END))
    known = bytearray(map(str.__eq__, characters, only_known(characters)))
    known[_SURROGATES.start : _SURROGATES.stop] = bytes(len(_SURROGATES))
    return bytes(known)


def _is_known(character: str) -> bool:
    return bool(_known()[ord(character)])


def normalization_source() -> str:
    """Return the source of ``normalization_tables.rs``."""
    known = [character for number in range(_END) if _is_known(character := chr(number))]
    decomposed = {
        character: form
        for character in known
        if (form := unicodedata.normalize("NFKD", character)) != character and ord(character) not in _HANGUL
    }
    composed = {
        tuple(chr(int(code, 16)) for code in pair): character
        for character in known
        if len(pair := unicodedata.decomposition(character).split()) == 2
        and not pair[0].startswith("<")
        and unicodedata.normalize("NFC", character) == character
    }
    folded = {character: form for character in known if (form := character.casefold()) != character.lower()}
    marks: list[list[int]] = []
    for character in known:
        number, order = ord(character), unicodedata.combining(character)
        if order and marks and marks[-1][1:] == [number - 1, order]:
            marks[-1][1] = number
        elif order:
            marks.append([number, number, order])
    return (
        "//! What normalisation and case folding make of characters, as Python says it.\n"
        f"{_HEAD}"
        "/// Characters that NFKD changes, in order, with what it makes of them. Hangul syllables are computed.\n"
        + _forms_source("DECOMPOSED", decomposed)
        + "\n/// Characters whose case folding is not their lower case, in order, with what it makes of them.\n"
        + _forms_source("CASE_FOLDED", folded)
        + "\n/// Pairs of characters that NFC unites, in order, with the one that they become.\n"
        f"#[rustfmt::skip]\npub static COMPOSED: [((char, char), char); {len(composed)}] = [\n"
        + _rows(
            [
                f"(({_rust_characters(first)}, {_rust_characters(second)}), {_rust_characters(character)})"
                for (first, second), character in sorted(composed.items())
            ],
            4,
        )
        + "];\n\n/// Ranges of marks with the same combining class: the first one, the last one, and the class.\n"
        f"#[rustfmt::skip]\npub static MARKS: [(char, char, u8); {len(marks)}] = [\n"
        + _rows(
            [f"({_rust_characters(chr(first) + chr(last))}, {order})" for first, last, order in marks],
            5,
        )
        + "];\n"
    )


def _forms_source(name: str, forms: Mapping[str, str]) -> str:
    rows = _rows(
        [f"({_rust_characters(character)}, {_rust_string(form)})" for character, form in forms.items()], 4
    )
    return f"#[rustfmt::skip]\npub static {name}: [(char, &str); {len(forms)}] = [\n{rows}];\n"


def _second_characters() -> frozenset[str]:
    """Return the characters that may unite with the character before them."""
    pairs = (unicodedata.decomposition(chr(number)).split() for number in range(0x110000))
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    hangul = {chr(number) for number in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    return frozenset(seconds | hangul)


def _character_class(character: str, seconds: frozenset[str], folded: dict[str, str]) -> int:
    """Return the bits of a character, and put what folding makes of it into ``folded`` where that is mapped."""
    if not _is_known(character):
        return 0
    decomposed = unicodedata.normalize("NFKD", character)
    bits = _set_bits(
        {
            _KNOWN: True,
            _WORD: character.isalnum() or character == "_",
            _SPACE: character.isspace(),
            _BOUNDARY: re.match(_FOLDING_BOUNDARY, character) is not None,
            # Where the quick check says yes, the same object comes back: the limit of folding depends on that.
            _NORMAL: unicodedata.normalize("NFKC", character) is character,
            _DECOMPOSED: decomposed != character and ord(character) not in _HANGUL,
            _LOWER: character.lower() == character,
            _CASELESS: character.casefold() == character,
            _MARK: unicodedata.combining(character) != 0,
            _SECOND: character in seconds,
            _WORD_MARK: _IS_WORD_MARK.match(character) is not None,
        }
    )
    if unicodedata.combining(decomposed[0]) or decomposed[0] in seconds:
        return bits  # what it becomes depends on the character before it
    return bits | _folding_bit(character, folded)


def _set_bits(bits: Mapping[int, bool]) -> int:
    return sum(bit for bit, is_set in bits.items() if is_set)


def _folding_bit(character: str, folded: dict[str, str]) -> int:
    """Return how a character is folded that stands for itself; 0 where it is decomposed first."""
    normal = unicodedata.normalize("NFKC", character)
    form = normal.casefold()
    if form == normal == character:
        return _KEPT
    if form == character.lower() and normal == character and len(form) == 1:
        return _LOWERED
    if any(ord(character) in numbers for numbers in _MAPPED):
        folded[character] = form
        return _MAPPED_BIT
    return 0


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


def added_fields_source() -> str:
    """Return the names of the fields that are added on arrival: see ``mail/added_fields.py``."""
    by_message: dict[str, list[str]] = {}
    for word in added_fields.FILTER_WORDS:
        by_message.setdefault(word[0], []).append(f'rest.starts_with(b"{word}")')
    arms = [f"        b'{letter}' => {' || '.join(tests)}," for letter, tests in sorted(by_message.items())]
    prefixes = [f'    b"{prefix}",' for prefix in added_fields.X_PREFIXES]
    lines = [
        "//! The names of header fields that are added on arrival: see `mail/added_fields.py`.",
        "",
        "/// Returns whether `rest`, which is not empty, begins with a word that is in names of filters alone.",
        "pub fn begins_with_filter_word(rest: &[u8]) -> bool {",
        "    match rest[0] {",
        *arms,
        "        _ => false,",
        "    }",
        "}",
        "",
        "/// What the name of such a field begins with, after `x-`.",
        f"pub const X_PREFIXES: [&[u8]; {len(prefixes)}] = [",
        *prefixes,
        "];",
        *_name_function("is_mailbox_name", "a mailbox, with or without `x-`", added_fields.MAILBOX_NAMES),
        *_name_function("is_arrival_name", "the server of the recipient", added_fields.ARRIVAL_NAMES),
    ]
    return _HEAD + "\n".join(lines) + "\n"


def _name_function(function: str, writer: str, names: Sequence[str]) -> Sequence[str]:
    first, *others = names
    return [
        "",
        f"/// Returns whether this is a field of {writer}.",
        f"pub fn {function}(name: &[u8]) -> bool {{",
        "    matches!(",
        "        name,",
        f'        b"{first}"',
        *[f'            | b"{name}"' for name in others],
        "    )",
        "}",
    ]


def sources() -> Mapping[Path, str]:
    """Return the files and their content."""
    return {
        REFERENCES_FILE: references_source(),
        CHARACTERS_FILE: characters_source(),
        NORMALIZATION_FILE: normalization_source(),
        NOT_ASCII_FILE: not_ascii_source(),
        SINGLE_BYTES_FILE: single_bytes_source(),
        ADDED_FIELDS_FILE: added_fields_source(),
    }


if __name__ == "__main__":
    for file, source in sources().items():
        file.write_text(source, encoding="ascii")
