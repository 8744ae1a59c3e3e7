"""The command line: which command runs, and the exit codes.

Rules: a command's module is imported only when it runs, so that ``--help`` is quick; exit codes are those of
sysexits.h (66 unreadable input, 75 try again, 78 configuration), 64 wrong usage, and 1 from ``check`` for spam
and for nothing else: a fault in a command is 70.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.cli import interrupts, terminal
from nbstream.cli.command_line import build_parser
from nbstream.cli.commands import import_command
from nbstream.cli.exit_codes import EX_INTERRUPTED, EX_SOFTWARE, exit_code
from nbstream.cli.terminal import print_error
from nbstream.errors import NbstreamError, OutputFailed

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if words is None:  # this process runs nothing but the command
        interrupts.exit_silently()
    terminal.open_closed_streams()
    try:
        with terminal.flush_at_end():
            options = build_parser().parse_args(words)
            return int(import_command(options.module).run(options))
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
