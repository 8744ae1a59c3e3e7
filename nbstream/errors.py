"""The errors that nbstream raises on purpose, as one tree.

Rules: ``str(error)`` is the text for the log and for the command line. It may name hosts, paths and keys, and the
cause travels as ``__cause__``. What a client may see of an error, and the exit code of a command, belong to the
edges: each edge (SMTP, HTTP, spamd, stream, command line) has one table from these classes to its own answers, and
``table_row`` reads it. Nothing here imports anything of nbstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Row = TypeVar("Row")


class NbstreamError(Exception):
    """The base of every error that nbstream raises on purpose.

    ``temporary`` says whether the same attempt may succeed later although nobody has changed what was asked for,
    the configuration or the stored data.
    """

    temporary: bool = True


class ConfigError(NbstreamError):
    """The configuration cannot be used; the text names the file, the key and what is allowed."""

    temporary = False


class CannotStart(NbstreamError):
    """The daemon cannot start now: an address or the state folder is in use, or no worker can serve."""


class NotRunning(NbstreamError):
    """A command needs the daemon, and no daemon runs on the state folder."""


class InputError(NbstreamError):
    """A file or folder given on the command line cannot be read."""

    temporary = False


class OutputFailed(NbstreamError):
    """The output of a command cannot be written: nobody reads it any more, there is no room, or no such folder."""

    temporary = False


class StoreUnavailable(NbstreamError):
    """Redis cannot be reached, or refuses to write, now."""


class StoreRefuses(StoreUnavailable):
    """Redis answers and can be read, but lessons are refused.

    Its memory is full, it cannot write to its disk, or an import runs.
    """


class StoreNotPrimary(StoreRefuses):
    """The Redis that answered is not the primary any more, or not the one that has the model: a failover goes on.

    Nothing was changed. The next command looks for the primary anew.
    """


class StoreForbids(StoreUnavailable):
    """Redis refuses the password, or wants one.

    A running daemon waits all the same, since the mistake may be corrected in Redis. A command ends.
    """

    temporary = False


class StoreIncompatible(NbstreamError):
    """The model has another format, or a newer server wrote it; the text says the way forward."""

    temporary = False


class CountsFull(NbstreamError):
    """Counts have grown until they would no longer be exact; the text says what to do."""


class FeedbackRefused(NbstreamError):
    """Nothing can be learned from a piece of feedback; the text says why, and what to send instead.

    Whoever sent the feedback may see the text.
    """

    temporary = False


class FeedbackTooLarge(FeedbackRefused):
    """A piece of feedback carries more messages than are learned at a time."""


class RelayUnavailable(NbstreamError):
    """The next hop cannot be reached, or went away before its answer."""


class RelayRefused(NbstreamError):
    """The next hop refused a command.

    ``code`` and ``text`` are its reply; a line feed parts the lines of the text.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"next hop: {code} {' '.join(text.splitlines())}")
        self.code = code
        self.text = text
        self.temporary = code < 500


class CheckFailed(NbstreamError):
    """The check of a message failed; ``on_filter_failure`` says what happens to the mail."""


class MessageLoops(NbstreamError):
    """A message has passed so many servers that it goes round in a circle."""

    temporary = False


class NotReleased(NbstreamError):
    """A message stays in the quarantine; the text says why."""


class ReleaseInDoubt(NotReleased):
    """The message may have been delivered already: it is delivered again only on purpose."""


def table_row(table: Mapping[type[NbstreamError], Row], kind: type[NbstreamError]) -> Row:
    """Return the row of an edge's table for ``kind``, or else that of its nearest parent that has one.

    Raises ``KeyError`` where neither ``kind`` nor one of its parents has a row.
    """
    for parent in kind.__mro__:
        if parent in table:
            return table[parent]
    raise KeyError(kind)
