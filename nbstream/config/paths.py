"""Paths in a configuration file, and the text of files that it names.

Rules: as in ``values``: a refusal is a ValueError that says what is allowed, and shows no file's content.
"""

from __future__ import annotations

from pathlib import Path


def read_path(value: object) -> Path:
    """A path; it counts from the working folder unless it is absolute, and a leading ``~`` is the home folder."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError("must be a path without ~ where the home folder is not known") from None


def read_text_file(path: Path, limit: int) -> str:
    """The text of a file of at most ``limit`` bytes; ValueError when there is none, and never its content."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ValueError(f"must be a readable file ({error.strerror})") from None
    if len(content) > limit:
        raise ValueError(f"must be a file of at most {limit} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"must be a file of UTF-8 text (byte {error.start} is not)") from None
