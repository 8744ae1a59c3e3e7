"""The one way to commit a lesson, and what makes it one that may be acknowledged.

A lesson may be acknowledged when Redis has answered the step of ``learn.lua`` that replaced one version of the
ledger entry by another, when the lesson is in the journal of this host (a disk that fails or is slow does not hold
it up), when as many replicas have it as are to be waited for, and when the counts that answer checks show it. What
others have changed meanwhile is planned again. ``commit_planned`` does all of that for one message. Bulk lessons
are committed by ``Model.commit_lessons``, and those of them that conflict are taught by themselves. An undo and
an import commit once: what others say at the same moment stays.

A reply may get lost although the step was carried out. The lesson is then committed again, and finds its own entry
in the ledger: that is its acknowledgement. A removal leaves no entry; its own attempt is in the history.

What is recorded: the entry and the note as the learn script got them, so that nothing is packed twice and the
lesson can be repeated to the last digit. The entry that it replaced is not kept: whoever repeats the lesson
replaces the entry that the ledger has then.

WAIT counts the replicas that have all writes of its own connection. Therefore a write that changes nothing
goes before it on the same connection: replication keeps the order, so a replica that has this write has every one
before it, from whichever connection it came. So a lesson that was committed before, and whose wait had failed, is
waited for as well when it is repeated.

A replica that has a write in its memory may lose it in a crash. WAIT bounds what a failover loses; it is no
consensus: a primary that is cut off together with some replicas, or a replica that is promoted although it lacks
the write, still loses it unless all replicas are waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from nbstream.errors import StoreRefuses, StoreUnavailable
from nbstream.store.model.history import LessonNote, read_note
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.scripts import LessonCommit
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.connection import ServerGuard
    from nbstream.store.model.keys import ModelKeys

_MAX_CONFLICTS = 20  # of one lesson, each with somebody else who was faster

_Plan = TypeVar("_Plan", bound=LessonCommit)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Settled(Generic[_Result]):
    """A plan to commit nothing, and what comes of that."""

    result: _Result


def is_own_entry(lesson: LessonCommit, entry: LedgerEntry | None) -> bool:
    """Return whether ``entry``, which the ledger has now, is the one that ``lesson`` writes.

    That is so where the reply to the write was lost, and the write was repeated: it was applied once. A missing
    entry is nobody's: ``commit_lesson`` itself knows whether a removal was its own.
    """
    return entry is not None and lesson.new is not None and entry.version == lesson.new.version


async def commit_planned(
    commit: Callable[[str, LedgerEntry | None, LedgerEntry | None, LessonNote], Awaitable[bytes | LedgerConflict]],
    message_key: str,
    entry: LedgerEntry | None,
    plan_lesson: Callable[[LedgerEntry | None, _Plan | None], Awaitable[_Plan | Settled[_Result]]],
    wait_until_applied: Callable[[bytes], Awaitable[None]] | None = None,
) -> _Plan | Settled[_Result]:
    """Plan and commit a lesson until nobody else is faster; return the plan once it may be acknowledged.

    ``plan_lesson`` is called with the entry that the ledger has, in the beginning ``entry``, and with the plan
    that somebody else was faster than. ``commit`` is ``commit_lesson`` of the store, and ``wait_until_applied``
    that of the counts, None where nobody reads them for the answer. Raises ``StoreUnavailable``, and what these
    raise; the same lesson may be taught again then.
    """
    plan: _Plan | None = None
    for _ in range(_MAX_CONFLICTS):
        if plan and entry and is_own_entry(plan, entry):  # the reply to our own write was lost
            change = entry.change
            break
        next_plan = await plan_lesson(entry, plan)
        if isinstance(next_plan, Settled):
            return next_plan
        plan = next_plan
        answer = await commit(message_key, plan.old, plan.new, plan.note)
        if isinstance(answer, bytes):
            change = answer
            break
        entry = answer.entry
    else:
        raise StoreUnavailable(f"message {message_key} is being changed by others all the time")
    if wait_until_applied:
        await wait_until_applied(change)
    return plan


KEPT_SECONDS = 900.0
"""How long a lesson is kept at least, unless there are too many: a replica may be promoted some minutes later."""

UNKNOWN_VERSION = "?"
"""Stands for the version of an entry of which it is not known what it replaced."""


@dataclass(frozen=True, slots=True)
class AcknowledgedLesson:
    """One lesson that Redis has acknowledged.

    ``model`` is the name of the model and ``identity`` its identity (see ``signature.read_identity``), empty where
    that was not known. ``change`` is the stream id of the change. ``former_version`` is the version of the ledger
    entry that was replaced, empty for none, and ``UNKNOWN_VERSION`` where the lesson was only found in place.
    ``note_fields`` and ``entry_fields`` are names and values in turn, as the learn script got them; without
    ``entry_fields`` the message was unlearned.
    """

    model: str
    identity: str
    change: bytes
    message_key: str
    former_version: str
    note_fields: tuple[bytes, ...]
    entry_fields: tuple[bytes, ...]

    @property
    def entry(self) -> LedgerEntry | None:
        """The ledger entry that the lesson wrote. Raises ``StoreIncompatible`` for one of another program."""
        fields = dict(zip(self.entry_fields[0::2], self.entry_fields[1::2], strict=True))
        return LedgerEntry.unpack({**fields, b"change": self.change} if fields else {})

    @property
    def note(self) -> LessonNote:
        """The note of the lesson in the history. Raises ``StoreIncompatible`` for one of another program."""
        return read_note(dict(zip(self.note_fields[0::2], self.note_fields[1::2], strict=True)))


class LessonRecorder(Protocol):
    """Records acknowledged lessons.

    ``identity`` is the identity of the model that lessons go to; each ``Model.open`` sets it.
    """

    identity: str

    async def record(self, lessons: Sequence[AcknowledgedLesson]) -> None:
        """Record the lessons before their acknowledgement goes on to whoever taught them; never raises."""


@dataclass(frozen=True, slots=True)
class ReplicaWaitOptions:
    """How many replicas must have a lesson before it is acknowledged (0: none), and how long that may take.

    ``timeout_seconds`` has to be shorter than the deadline of a command.
    """

    replicas: int = 0
    timeout_seconds: float = 2.5


class ReplicaWait:
    """Waits for the replicas of one model's server."""

    def __init__(self, client: Redis, keys: ModelKeys, options: ReplicaWaitOptions) -> None:
        self._client = client
        self._keys = keys
        self._options = options

    async def wait(self, guard: ServerGuard) -> None:
        """Return when enough replicas have all that was written since ``guard`` was made, and before.

        Raises ``StoreRefuses`` where they do not have it in time, and ``StoreUnavailable`` where another server
        answers by now, which may lack it. It is stored in both cases, or it was; it may be committed again.
        """
        options = self._options
        if not options.replicas:
            return
        with store_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.incrby(self._keys.sequence, 0)
                pipe.execute_command("WAIT", options.replicas, max(1, round(options.timeout_seconds * 1000)))
                _, replicas = await pipe.execute()
        guard.check()
        if replicas < options.replicas:
            raise StoreRefuses(
                f"the lesson is stored, but {replicas} replicas have it, and redis.wait_replicas is "
                f"{options.replicas}"
            )
