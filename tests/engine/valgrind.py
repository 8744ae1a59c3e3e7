"""The native library under valgrind: mutated mail is taken apart, scored and learned, and no error may come of it.

    python -m tests.engine.valgrind LIBRARY --messages 300 --seed 1

The library should be built with debug information (the profile ``checked``). Errors that valgrind finds in Python
itself are left out: only those with the library among their callers count. ``make native-check`` runs it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engine import identity
from tests.engine.compared_mail import mutated_mail
from tests.harness.engine_pair import native_engine

_ERROR = re.compile(r"^==\d+== (?=\S)", re.MULTILINE)  # the first line of each error is not indented
_FRAME = re.compile(r"(?:at|by) 0x[0-9A-F]+: .*(?:\.rs:\d+\)|libnbstream_native)")
_PROGRAM = "from tests.engine.valgrind import exercise; exercise({library!r}, {messages}, {seed})"


def exercise(library: str, messages: int, seed: int) -> None:
    """Let the library work; this is the process under valgrind. Raises ``AssertionError`` for a panic."""
    report = identity.exercise(mutated_mail(messages, seed), seed, native_engine(Path(library)))
    assert report.is_clean, report.panics


def library_errors(log: str) -> list[str]:
    """Return the errors in a log of valgrind in which the library has a part."""
    return [error for error in _ERROR.split(log) if _FRAME.search(error)]


def main() -> int:
    """Run the library under valgrind, print the errors in it, and return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.valgrind", description="the library in valgrind")
    parser.add_argument("native_library", type=Path)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program = _PROGRAM.format(library=str(options.native_library), messages=options.messages, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        words = ["valgrind", "--error-limit=no", f"--log-file={log}", sys.executable, "-c", program]
        result = subprocess.run(words, env={**os.environ, "PYTHONMALLOC": "malloc"}, check=False)
        errors = library_errors(log.read_text())
    for error in errors:
        print(error)
    outcome = f"exit code {result.returncode}, {len(errors)} errors in the library"
    print(f"valgrind: {options.messages} messages, {outcome}")
    return int(bool(errors or result.returncode))


if __name__ == "__main__":
    sys.exit(main())
