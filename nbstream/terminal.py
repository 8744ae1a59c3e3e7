"""Standard input, output and error, which may be a terminal, closed, full, or without a reader.

Rules: no part of a message, and no file's name, can move the cursor of a terminal or change its title. What
cannot be printed ends a command with ``OutputFailed``, once; what cannot be printed on standard error is lost. A
stream that is closed is replaced, since otherwise the next file that is opened would take its number.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from nbstream.errors import NbstreamError, OutputFailed


def open_closed_streams() -> None:
    """Open the streams that are closed: using input and output fails then, and errors go nowhere."""
    for name, flags in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))  # the lowest number that is free


@contextmanager
def flush_at_end() -> Iterator[None]:
    """Flush standard output at the end; characters that its encoding lacks are escaped.

    Raises ``OutputFailed`` where it cannot be written.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a token may be in any script
    with redirect_stdout(_CheckedOutput(sys.stdout)):
        try:
            yield
        finally:
            sys.stdout.flush()


@contextmanager
def translate_output_errors() -> Iterator[None]:
    """Turn an ``OSError`` inside into ``OutputFailed``; what is left in the buffer is discarded."""
    try:
        yield
    except OSError as error:
        discard_buffer(sys.stdout)
        raise OutputFailed(f"standard output: {error.strerror}") from error


@contextmanager
def progress(unit: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Give a function that takes how many more there are, and shows them where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from tqdm import tqdm  # noqa: PLC0415 - a twentieth of the time to start

    with tqdm(total=total, unit=unit) as bar:
        yield bar.update


def discard_buffer(stream: TextIO) -> None:
    """Discard what is left in the buffer of a stream: Python would try to write it again at its exit."""
    with suppress(OSError):  # of a stream in memory
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _CheckedOutput:
    """A stream that raises ``OutputFailed`` where it cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with translate_output_errors():
            return self._stream.write(text)

    def flush(self) -> None:
        with translate_output_errors():
            self._stream.flush()


def printable(text: str) -> str:
    """Return ``text`` with a question mark for each character that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def print_error(problem: object) -> None:
    """Print a problem on standard error: on one line, or on several, as for the problems of a configuration."""
    print_note(f"nbstream: {problem}")


def print_note(text: str) -> None:
    """Print on standard error what is no result. What cannot be written is lost, and changes no exit code."""
    try:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        discard_buffer(sys.stderr)


class Output:
    """What a command says: its results as text, or each as one JSON object a line, and what went wrong on the way.

    ``errors`` waits to be printed, and ``first_error`` decides the exit code, for the rest of the work is done.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.errors: list[NbstreamError] = []
        self.first_error: NbstreamError | None = None

    def show(self, text: str | Sequence[str], members: object = None, *, styled: bool = False) -> None:
        """Print a result at once: its text, which is one line or several, or its JSON where that is wanted.

        What is ``styled`` may end lines and move the cursor: it holds nothing that others have written.
        """
        if self.as_json:
            if members is not None:
                import json  # noqa: PLC0415 - --help needs none

                print(json.dumps(members), flush=True)
        elif lines := [text] if isinstance(text, str) else text:
            print("\n".join(lines if styled else map(printable, lines)), flush=True)

    def fail(self, error: NbstreamError, text: str = "") -> None:
        """Print why a part of the work was not done."""
        print_error(text or error)
        self.first_error = self.first_error or error

    def print_errors(self) -> None:
        """Print the errors that wait."""
        for error in self.errors:
            self.fail(error)
        self.errors.clear()


def terminal_columns() -> int | None:
    """Return how wide the terminal is that standard output is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_styled() -> bool:
    """Return whether standard output may be in colour and in bold (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def local_time(at: float) -> str:
    """Return a moment by the user's clock, to the second and with its offset, in a form that ``--since`` takes.

    A number that is no time, which another program may have stored, is a dash.
    """
    try:
        return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "-"


# Files that commands write: a path that cannot be written to is an error before the work, not after it.


def check_writable(paths: Sequence[Path]) -> None:
    """Raise ``OutputFailed`` for the first of ``paths`` that no file can be written to."""
    for path in paths:
        target = path if path.exists() else path.parent
        if path.is_dir() or not target.exists() or not os.access(target, os.W_OK):
            raise OutputFailed(f"{path}: cannot be written there")


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` inside into an ``OutputFailed`` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise OutputFailed(f"{path}: {error.strerror}") from error
