"""Paths in a configuration file, and the text of files that it names.

Rules: as in ``values``, a refusal is a ValueError that says what is allowed. It shows no content of a file.
"""

from __future__ import annotations

from pathlib import Path


def read_path(value: object) -> Path:
    """Read a path. A relative path starts in the working folder, and a leading ``~`` is the home folder."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError("must be a path without ~ where the home folder is not known") from None


def read_text_file(path: Path, limit: int) -> str:
    """Return the text of a file of at most ``limit`` bytes.

    Raises ValueError, without the content, for a file that cannot be read, is larger, or is no UTF-8 text.
    """
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
