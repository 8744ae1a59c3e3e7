"""The command line: which command runs, what it prints, and its exit code.

Rules: a command is a module with a function ``run``, which takes the arguments and an ``Output``, and returns an
exit code other than 0, if it has one; it may be a coroutine. The module is imported only when the command runs, so
that ``--help`` is quick. Exit codes are those of sysexits.h (66 unreadable input, 75 try again, 78 configuration),
64 wrong usage, and 1 from ``check`` for spam and for nothing else: a fault in a command is 70.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from contextlib import suppress
from types import CoroutineType
from typing import TYPE_CHECKING

from nbstream import interrupts, terminal
from nbstream.cli.command_line import build_parser
from nbstream.cli.exit_codes import EX_INTERRUPTED, EX_SOFTWARE, exit_code
from nbstream.errors import NbstreamError, OutputFailed
from nbstream.terminal import Output, print_error

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import ModuleType


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if words is None:  # this process runs nothing but the command
        interrupts.exit_silently()
    terminal.open_closed_streams()
    try:
        with terminal.flush_at_end():
            return _run(build_parser().parse_args(words))
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except OutputFailed as error:
        if not isinstance(error.__cause__, BrokenPipeError):  # the reader (head, less) may go away
            print_error(error)
        return exit_code(error)
    except NbstreamError as error:
        print_error(error)
        return exit_code(error)
    except Exception:  # noqa: BLE001 - printed as Python would; but Python's exit code 1 means spam
        with suppress(OSError):
            traceback.print_exc()
        return EX_SOFTWARE


def _run(options: argparse.Namespace) -> int:
    output = Output(as_json=getattr(options, "json", False))
    code = import_command(options.module).run(options, output)
    if isinstance(code, CoroutineType):
        code = interrupts.run_interruptible(code)
    output.print_errors()
    return exit_code(output.first_error) if output.first_error else int(code or 0)


def import_command(name: str) -> ModuleType:
    """Return a command's module.

    Garbage collection waits meanwhile, since what is imported is no garbage; and numpy starts no threads, which
    would only wait for work.
    """
    if module := sys.modules.get(name):
        return module
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
