"""The one way to commit a lesson, and what makes it one that may be acknowledged.

A lesson may be acknowledged when Redis has answered the step of ``learn.lua`` that replaced one version of the
ledger entry by another, when as many replicas have it as are to be waited for, and when the counts that answer
checks show it. What others have changed meanwhile is planned again by ``filter.lesson_groups``. An undo and an
import commit once: what others say at the same moment stays.

A reply may get lost although the step was carried out. The lesson is then committed again, and finds its own entry
in the ledger: that is its acknowledgement. A removal leaves no entry; its own attempt is in the history.

WAIT counts the replicas that have all writes of its own connection. Therefore a write that changes nothing
goes before it on the same connection: replication keeps the order, so a replica that has this write has every one
before it, from whichever connection it came. So a lesson that was committed before, and whose wait had failed, is
waited for as well when it is repeated.

A replica that has a write in its memory may lose it in a crash. WAIT bounds what a failover loses; it is no
consensus: a primary that is cut off together with some replicas, or a replica that is promoted although it lacks
the write, still loses it unless all replicas are waited for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from redis.exceptions import ResponseError

from nbstream.errors import StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.store.connection import ServerGuard
from nbstream.store.lua import lua_script
from nbstream.store.model.history import History, LessonNote
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.scripts import Lesson, LessonBatch, unpack_reply
from nbstream.store.redis_errors import store_error, store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys, RetentionLimits

_log = logging.getLogger(__name__)

CommitResult: TypeAlias = "bytes | LedgerConflict | StoreUnavailable | StoreIncompatible"
"""What became of one of several lessons: its change, what the ledger holds instead, or why it failed."""


class ReplicaWaitOptions(NamedTuple):
    """How many replicas must have a lesson before it is acknowledged (0: none), and how long that may take.

    ``timeout_seconds`` has to be shorter than the deadline of a command.
    """

    replicas: int = 0
    timeout_seconds: float = 2.5


class CommitPoint:
    """Where the lessons of one model are committed and acknowledged."""

    def __init__(
        self,
        client: Redis,
        keys: ModelKeys,
        retention: RetentionLimits,
        replica_wait: ReplicaWaitOptions,
    ) -> None:
        self.client = client
        self.keys = keys
        self.retention = retention
        self.history = History(client, keys)
        self.last_refusal: StoreRefuses | None = None
        """Why Redis refused the last lesson of this process; None where it did not."""
        self._replica_wait = replica_wait
        self._learn_script = client.register_script(lua_script("learn.lua"))

    async def last_change(self) -> bytes:
        """The stream id of the last change; empty before the first one."""
        with store_errors():
            entries: Any = await self.client.xrevrange(self.keys.changes, count=1)
        return entries[0][0] if entries else b""

    async def commit_lesson(
        self,
        message_key: str,
        old: LedgerEntry | None,
        new: LedgerEntry | None,
        note: LessonNote,
    ) -> bytes | LedgerConflict:
        """Commit one lesson: replace the ledger entry ``old`` by ``new``, None standing for no entry.

        This is the commit point of every lesson. One atomic step takes back the counts of ``old``, adds those of
        ``new``, writes the ledger entry, adds the change to the change stream and a record with ``note`` to the
        history: all of it, or nothing. The method returns only after Redis has acknowledged the step, so with an
        append-only file that is synced at each write (``appendfsync always``) the lesson is then durable. Where
        the model is to wait for replicas, they have the lesson then, also one that was committed before.

        Returns the stream id of the change, or what the ledger holds instead of ``old``: nothing was changed then,
        and the caller may try again with that. After an error the same lesson may be committed again: where the
        first attempt was carried out, the second one changes nothing. Raises ``StoreRefuses`` where Redis does
        not write, ``StoreUnavailable``, and ``StoreIncompatible`` for an entry that cannot be read.
        """
        lesson = Lesson(message_key, old, new, note)
        (result,) = await self.commit_lessons(LessonBatch([lesson]))
        if isinstance(result, Exception):
            raise result
        return result

    async def commit_lessons(self, batch: LessonBatch) -> list[CommitResult]:
        """Commit the lessons of a batch; each is what ``commit_lesson`` commits.

        They are one atomic step, with one change. Those for whose message the ledger holds another entry than the
        expected one are no part of it: they change nothing, as if each were alone. Where Redis refuses the step,
        each lesson is a step of its own. Where one fails, its place in the list holds the error, and the others
        are committed all the same. Raises ``StoreUnavailable`` where it is not known what was committed; the
        lessons may be committed again.
        """
        guard = ServerGuard(self.client)
        answers = await self._commit_batch(batch)
        results = [await self._recognize_own(lesson, answers[lesson.message_key]) for lesson in batch.lessons]
        errors = [result for result in results if isinstance(result, StoreUnavailable)]
        refusal = next((error for error in errors if isinstance(error, StoreRefuses)), None)
        try:
            await self._wait_for_replicas(guard)
        except StoreRefuses as error:
            self._note_refusal(error)
            raise
        if refusal or not errors:
            self._note_refusal(refusal)
        return results

    async def _commit_batch(self, batch: LessonBatch) -> dict[str, CommitResult]:
        """Commit the lessons in one step, except those that conflict; return by message key what became of each.

        After a lost reply all of them conflict, with the new entries of the batch.
        """
        if not batch.lessons:
            return {}
        with store_errors():
            try:
                reply = await self._learn_script(
                    keys=batch.pack_keys(self.keys), args=batch.pack_arguments(self.retention)
                )
            except ResponseError as error:
                if len(batch.lessons) == 1:
                    return {batch.lessons[0].message_key: store_error(error)}
                alone = [await self._commit_batch(LessonBatch([lesson])) for lesson in batch.lessons]
                return {key: result for results in alone for key, result in results.items()}
        answer = unpack_reply(reply, len(batch.lessons))
        if isinstance(answer, bytes):
            return {lesson.message_key: answer for lesson in batch.lessons}
        conflicts: dict[str, CommitResult] = {batch.lessons[n].message_key: answer[n] for n in answer}
        others = [lesson for lesson in batch.lessons if lesson.message_key not in conflicts]
        return conflicts | await self._commit_batch(LessonBatch(others))

    async def confirm(self) -> None:
        """Return when as many replicas as wanted have every lesson that Redis has acknowledged.

        This is for an answer that writes nothing, because an earlier attempt has written it. Raises
        ``StoreUnavailable``.
        """
        await self._wait_for_replicas(ServerGuard(self.client))

    async def _wait_for_replicas(self, guard: ServerGuard) -> None:
        """Return when enough replicas have all that was written since ``guard`` was made, and before.

        Raises ``StoreRefuses`` where they do not have it in time, and ``StoreUnavailable`` where another server
        answers by now, which may lack it. It is stored in both cases, or it was; it may be committed again.
        """
        options = self._replica_wait
        if not options.replicas:
            return
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                pipe.incrby(self.keys.sequence, 0)
                pipe.execute_command("WAIT", options.replicas, max(1, round(options.timeout_seconds * 1000)))
                _, replicas = await pipe.execute()
        guard.check()
        if replicas < options.replicas:
            raise StoreRefuses(
                f"the lesson is stored, but {replicas} replicas have it, and redis.wait_replicas is "
                f"{options.replicas}"
            )

    async def _recognize_own(self, lesson: Lesson, answer: CommitResult) -> CommitResult:
        """Return a change in place of the conflict of a lesson that was carried out before, its reply lost.

        Its entry is in the ledger then. The ledger does not tell its removal from one by others, the history does:
        nothing names its change, and the last one comes no earlier.
        """
        if not isinstance(answer, LedgerConflict):
            return answer
        if lesson.new:
            return answer.entry.change if answer.entry and answer.entry.version == lesson.new.version else answer
        return await self.last_change() if await self.history.has_removal(lesson.attempt) else answer

    def note_writes_accepted(self) -> None:
        """Note that Redis takes writes: what it refused a moment ago it would take now."""
        self._note_refusal(None)

    def _note_refusal(self, refusal: StoreRefuses | None) -> None:
        """Note a refusal; log when Redis begins to refuse lessons and when it takes them again, not each time."""
        if refusal and not self.last_refusal:
            _log.error("training is disabled, scoring continues: %s", refusal)
        if self.last_refusal and not refusal:
            _log.info("training is enabled again")
        self.last_refusal = refusal
