"""The error tree. Each error carries its own SMTP reply: 4xx where trying again may help.

Rules: the public text never names a host, a path, a key or an exception; the hidden cause travels as
``__cause__`` and goes to the log only. Nothing here imports anything of nbstream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

_UNSAFE = re.compile(r"[^\x20-\x7e\n]")


@dataclass(frozen=True, slots=True)
class Reply:
    """An SMTP reply: the three-digit code and its text, enhanced status code included.

    Several lines of text are separated by a line feed. RFC 5321 4.2.
    """

    code: int
    text: str

    @property
    def accepted(self) -> bool:
        """True for 2xx."""
        return 200 <= self.code < 300

    def render(self) -> bytes:
        """The reply on the wire without its last CRLF; control and non-ASCII characters become ``?``."""
        if self.text.isascii() and self.text.isprintable():  # as most are: a third of the time
            return f"{self.code} {self.text}".encode("ascii")
        lines = _UNSAFE.sub("?", self.text).split("\n")
        head = [f"{self.code}-{line}" for line in lines[:-1]]
        return "\r\n".join([*head, f"{self.code} {lines[-1]}"]).encode("ascii")

    def __str__(self) -> str:
        return self.render().decode("ascii")


class NbstreamError(Exception):
    """Base of every error that nbstream raises on purpose.

    ``str(error)`` is for the log and the command line; ``error.reply`` is what a client may see.
    """

    reply: ClassVar[Reply] = Reply(451, "4.3.0 Temporary failure, please try again later")
    exit_code: ClassVar[int] = 75  # EX_TEMPFAIL, sysexits.h


class ConfigError(NbstreamError):
    """The configuration cannot be used; the text names the file, the key and what is allowed."""

    exit_code = 78  # EX_CONFIG


class CannotStart(NbstreamError):
    """Something that the daemon needs is taken now: an address, or the state folder. It may be free later."""


class DaemonRunning(NbstreamError):
    """What a command does cannot be done while a daemon runs, and one does, or may."""


class NotRunning(NbstreamError):
    """A command needs the daemon, and none runs on the state folder."""

    exit_code = 69  # EX_UNAVAILABLE


class InputError(NbstreamError):
    """A file or folder given on the command line cannot be read."""

    exit_code = 66  # EX_NOINPUT


class ReaderProcessFailed(NbstreamError):
    """The process that reads what is given on the command line has ended before all of it was read."""


class ReaderProcessFault(ReaderProcessFailed):
    """It has ended of a fault in nbstream, which it has told itself: trying again does not help."""

    exit_code = 70  # EX_SOFTWARE


class OutputFailed(NbstreamError):
    """What a command prints cannot be written: nobody reads it any more, or there is no room for it."""

    exit_code = 74  # EX_IOERR


class WorkerFailed(NbstreamError):
    """A worker process cannot serve, and no other one could; text and exit code are of its own error."""

    def __init__(self, why: str, exit_code: int) -> None:
        super().__init__(why)
        self.exit_code = exit_code  # type: ignore[misc]  # the worker's


class StoreUnavailable(NbstreamError):
    """Redis cannot be reached, or refuses to write, now."""

    reply = Reply(451, "4.3.0 Learning is not possible now, please try again later")


class StoreRefuses(StoreUnavailable):
    """Redis answers and can be read, but refuses to write: its memory is full, or it cannot write to its disk."""


class StoreForbids(StoreUnavailable):
    """Redis refuses the password, or wants one. A daemon waits all the same: it may be Redis that is set right."""

    exit_code = 78


class StoreIncompatible(NbstreamError):
    """What is stored was written by another schema, tokenizer or a newer server; the text says the way forward."""

    exit_code = 78


class CountsFull(NbstreamError):
    """Weights have grown by the half-life until counts would no longer be exact; the text says what to do."""

    reply = Reply(451, "4.3.0 Learning is not possible until this has been seen to, please try again later")


class FeedbackRefused(NbstreamError):
    """A piece of feedback that nothing can be learned from; ``reply`` says why, and what would do."""

    exit_code = 65  # EX_DATAERR

    def __init__(self, why: str, code: int = 550, status: str = "5.6.0") -> None:
        super().__init__(why)
        self.reply = Reply(code, f"{status} {why}")  # type: ignore[misc]  # each refusal has its own


class RelayUnavailable(NbstreamError):
    """The next hop cannot be reached, or went away before its answer."""

    reply = Reply(451, "4.4.1 The next mail server cannot be reached now, please try again later")


class RelayRefused(NbstreamError):
    """The next hop answered a command with a refusal; ``reply`` is its own answer."""

    exit_code = 69  # EX_UNAVAILABLE

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"next hop: {reply}")
        self.reply = reply  # type: ignore[misc]  # the one error whose reply is not the class's: it is the hop's


class CheckFailed(NbstreamError):
    """The check of a message failed; ``on_filter_failure`` says what happens to the mail."""


class NotReleased(NbstreamError):
    """A message stays in the quarantine; the text says why."""
