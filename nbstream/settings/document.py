"""The plain data of a file with the line of each value, and its problems as texts that help to correct it.

Rules: each problem has one line with the file, the line number, the key, the value and what is allowed. No
password gets out: a URL is shown without the part before its @, and callers do not pass the values of unknown
keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from nbstream.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a file, and the line (from 1 on) of each key and list item in it."""

    data: dict[str, object] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line_of(self, key: KeyPath) -> int | None:
        """Return the line of the key, or of the nearest key above it that the file has."""
        prefixes = (key[:length] for length in range(len(key), 0, -1))
        return next((self.lines[prefix] for prefix in prefixes if prefix in self.lines), None)


KeyPath: TypeAlias = tuple[str | int, ...]

_MAX_SHOWN_CHARACTERS = 200
_WORD = re.compile(rf"[A-Za-z0-9_-]{{1,{_MAX_SHOWN_CHARACTERS}}}")
_URL_USER = re.compile(r"://.*@", re.DOTALL)


class ConfigProblem(NamedTuple):
    """One problem: its key (empty for the whole file), its line from 1 on, and what to do about it."""

    key: KeyPath
    line: int | None
    text: str

    def render(self, name: str) -> str:
        """Return the line that reports the problem. ``name`` is the name of the file."""
        position = f"{name}:{self.line}" if self.line else name
        return ": ".join(part for part in (position, format_key(self.key), self.text) if part)


def config_error(name: str, problems: Iterable[ConfigProblem]) -> ConfigError:
    """Return the error that lists these problems of the file ``name``, in the order of their lines."""
    in_order = sorted(problems, key=lambda problem: problem.line or 0)
    return ConfigError("\n".join(problem.render(name) for problem in in_order))


def format_key(key: KeyPath) -> str:
    """Return a key as ``feedback.allow_from[1]``. A part that is no plain word is quoted, on the same line."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{_format_key_part(part)}" for part in key).lstrip(
        "."
    )


def _format_key_part(part: str) -> str:
    return part if _WORD.fullmatch(part) else format_value(part)


def format_value(value: object) -> str:
    """Return a value as YAML writes it, but short, on one line, and without the password of a URL."""
    if isinstance(value, str):
        text = _URL_USER.sub("://***@", value)
        return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[: _MAX_SHOWN_CHARACTERS - 3]}...")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}"[:_MAX_SHOWN_CHARACTERS]
    return describe_kind(value)


def describe_kind(value: object) -> str:
    """Return the kind of the value in the words of YAML files."""
    words: dict[type, str] = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}
    if value is None:
        return "null"
    return words.get(type(value), "a number" if isinstance(value, int | float) else "something else")
