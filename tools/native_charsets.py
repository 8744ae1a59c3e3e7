"""Writes the names of the charsets in which ASCII text is not itself, for the native library.

The library leaves text in these charsets to Python. ``python -m tools.native_charsets`` writes them again, when
Python or ``nbstream.mail.charsets`` knows new ones.
"""

from __future__ import annotations

import encodings
import pkgutil
from encodings.aliases import aliases
from itertools import product
from pathlib import Path

from nbstream.mail.charsets import decode_text

FILE = Path(__file__).parent.parent / "native" / "src" / "mail" / "charsets" / "not_ascii.rs"
"""Where the names are."""

_OTHER_NAMES = ("unicode-1-1-utf-7",)
# Pairs, because some charsets shift at two characters: "~{" in HZ, "+A" in UTF-7.
_SAMPLES = [bytes(pair) for size in (1, 2) for pair in product(range(128), repeat=size)]


def names_without_ascii() -> list[str]:
    """Return the names, as ``encodings.normalize_encoding`` writes them with "_" for ".", in order."""
    modules = (module.name for module in pkgutil.iter_modules(encodings.__path__))
    names = {*aliases, *modules, *_OTHER_NAMES}
    return sorted({encodings.normalize_encoding(name).replace(".", "_") for name in names if not _has_ascii(name)})


def _has_ascii(name: str) -> bool:
    return all(decode_text(sample, name) == sample.decode("ascii") for sample in _SAMPLES)


def source() -> str:
    """Return the Rust source that holds the names."""
    lines = "".join(f'    b"{name}",\n' for name in names_without_ascii())
    return (
        "//! Charsets in which ASCII text is not itself. `python -m tools.native_charsets` wrote this file.\n\n"
        f"pub const NAMES: &[&[u8]] = &[\n{lines}];\n"
    )


if __name__ == "__main__":
    FILE.write_text(source(), encoding="ascii")
