"""The exit codes of commands: those of sysexits.h, and one table from an error's class to its code."""

from __future__ import annotations

from collections.abc import Mapping

from nbstream import errors
from nbstream.errors import NbstreamError, table_row

EX_SPAM = 1
"""The command ``check`` has seen spam. No other command and no fault ends with 1."""

EX_USAGE = 64
EX_DATAERR = 65
EX_NOINPUT = 66
EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_IOERR = 74
EX_TEMPFAIL = 75
EX_CONFIG = 78

EX_INTERRUPTED = 130
"""The command was interrupted by Ctrl-C: 128 and the number of the signal, as shells have it."""

EXIT_CODE_MEANINGS: Mapping[int, str] = {
    0: "The command succeeded.",
    64: "The command line is wrong.",
    65: "Nothing can be learned from a message.",
    66: "An input cannot be read, is damaged, or an id is unknown. The other inputs are handled all the same.",
    69: "The daemon does not run, or the next hop refuses.",
    70: "An internal error. The traceback is on standard error.",
    74: "The output cannot be written, or its reader is gone.",
    75: "Try again later: Redis is away, or an address or the state folder is in use.",
    78: "The configuration, a password or a stored model cannot be used.",
    130: "The command was interrupted by Ctrl-C. A second Ctrl-C does not wait for what is under way.",
}
"""The exit codes of every command and their meaning, most of them those of sysexits.h."""

ERROR_EXIT_CODES: Mapping[type[NbstreamError], int] = {
    errors.CannotStart: EX_TEMPFAIL,
    errors.CheckFailed: EX_TEMPFAIL,
    errors.ConfigError: EX_CONFIG,
    errors.CountsFull: EX_TEMPFAIL,
    errors.FeedbackRefused: EX_DATAERR,
    errors.InputError: EX_NOINPUT,
    errors.MessageLoops: EX_UNAVAILABLE,
    errors.NotReleased: EX_TEMPFAIL,
    errors.NotRunning: EX_UNAVAILABLE,
    errors.OutputFailed: EX_IOERR,
    errors.RelayRefused: EX_UNAVAILABLE,
    errors.RelayUnavailable: EX_TEMPFAIL,
    errors.StoreForbids: EX_CONFIG,
    errors.StoreIncompatible: EX_CONFIG,
    errors.StoreUnavailable: EX_TEMPFAIL,
    NbstreamError: EX_TEMPFAIL,
}
"""A class without a row has that of its parent."""


def exit_code(error: NbstreamError) -> int:
    """Return the exit code of a command that ends with ``error``."""
    return table_row(ERROR_EXIT_CODES, type(error))
