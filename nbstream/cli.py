"""The command line: which command runs, and the exit codes.

Rules: a command's module is imported only when it runs, so that ``--help`` is quick; exit codes are those of
sysexits.h (66 unreadable input, 75 try again, 78 configuration), 64 wrong usage, and 1 from ``check`` for spam.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nbstream.commands import imported
from nbstream.commands.terminal import complain
from nbstream.errors import NbstreamError
from nbstream.usage import build_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

EX_IOERR = 74
EX_INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = build_parser().parse_args(words)
    command = imported(options.module)
    try:
        return int(command.run(options))
    except NbstreamError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (head, less): nothing to complain of, as Python would at exit.
        sys.stderr.close()
        return EX_IOERR


if __name__ == "__main__":
    sys.exit(main())
