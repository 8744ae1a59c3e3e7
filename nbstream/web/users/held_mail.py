"""The mail that is held back for one user: what waits for their address, and what they do with it and teach.

Rules: a user sees and releases only what is addressed to them, at whichever of their addresses, and learns of no
other recipient. What they release goes to them alone; the copy of another recipient waits on. To do a thing twice
is harmless: what waits no more is said to be gone, and a lesson that was given already changes nothing. What
blocks goes on in a thread. What a user says goes to their own model, or to the common one where they have none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from nbstream.delivery import quarantine
from nbstream.errors import NbstreamError, RelayRefused, ReleaseInDoubt
from nbstream.logs import event_fields
from nbstream.policy.feedback_source import Reinforcement
from nbstream.server.metrics import log_lesson
from nbstream.server.quarantine_release import QuarantineReleaser
from nbstream.store.recent.message_rows import OutcomeKind, normalize_address

if TYPE_CHECKING:
    from collections.abc import Collection

    from nbstream.delivery.next_hop import NextHop
    from nbstream.delivery.quarantine import Quarantine, QuarantineFile, QuarantineNote
    from nbstream.filter import FeedbackResult, LearnableMessage
    from nbstream.mail.message import Message
    from nbstream.server.runtime import Runtime


_MAX_AT_ONCE = 4  # releases and lessons, each with some copies of its message in memory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that waits for a user: ``sender`` and ``subject`` are what its header says, decoded.

    ``at`` is when it came last, in seconds since 1970. ``probability`` is that of spam. ``in_doubt``: it may have
    been delivered already. ``by_list``: its sender is on a list of blocked senders.
    """

    id: str
    at: float
    verdict: str
    probability: float
    sender: str
    subject: str
    in_doubt: bool = False
    by_list: bool = False


class HeldOutcome(StrEnum):
    """What became of what a user asked for."""

    DONE = "done"
    GONE = "gone"
    """The message does not wait for this user: it was released or removed, has expired, or never did."""
    IN_DOUBT = "in_doubt"
    """It may have been delivered already, and is delivered only if the user asks for that again."""
    REFUSED = "refused"
    """The mail server refuses it for good."""
    LATER = "later"
    """It cannot be done now, and can be tried again."""


UserOf: TypeAlias = Callable[[str], str]
"""Returns the address, normalized, of the user to whom mail for this address belongs."""


@dataclass(eq=False, kw_only=True, slots=True)
class HeldMail:
    """The held mail of all users; each method is about that of the one with this ``address``, normalized.

    ``runtime`` returns what is in force now. ``note_outcome`` remembers what became of a message, by its id, and
    who wanted it.
    """

    waiting: Quarantine
    next_hop: NextHop
    runtime: Callable[[], Runtime]
    teacher: UserTeacher
    note_outcome: Callable[[str, OutcomeKind, str], Awaitable[None]]
    user_of: UserOf = normalize_address
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_AT_ONCE), init=False)

    async def find(self, address: str, message_id: str) -> HeldMessage | None:
        """Return the message with this whole id, or None where it does not wait for the user.

        Raises ``InputError``.
        """

        def read() -> HeldMessage | None:
            files = self._files(address, message_id)
            return read_held_message(files[-1]) if files else None

        async with self._at_once:
            return await asyncio.to_thread(read)

    async def release(self, address: str, message_id: str, *, again: bool = False) -> HeldOutcome:
        """Teach the message as ham and deliver it to the user alone.

        ``again``: also where it may have been delivered already.
        """
        runtime = self.runtime()

        async def learn_ham(message: Message) -> FeedbackResult:
            return await self.teacher.learn(address, message, "ham")

        releaser = QuarantineReleaser(learn_ham, runtime.message_reader, runtime.header_policy, self.next_hop)

        async def release_all(files: Collection[QuarantineFile]) -> None:
            for file in files:
                await releaser.release(file, again=again, is_for=lambda path: self.user_of(path) == address)
            if not await asyncio.to_thread(self.waiting.messages, message_id):
                await self.note_outcome(message_id, OutcomeKind.RELEASED, address)

        return await self._do("released", address, message_id, release_all)

    async def learn_ham(self, address: str, message_id: str) -> HeldOutcome:
        """Teach the message as ham; it waits on."""
        reader = self.runtime().message_reader

        async def learn(files: Collection[QuarantineFile]) -> None:
            file, *_ = files
            _, content = await asyncio.to_thread(quarantine.read_message, file)
            await self.teacher.learn(address, await asyncio.to_thread(reader.read_incoming, content), "ham")

        return await self._do("taught as ham", address, message_id, learn)

    async def _do(
        self,
        what: str,
        address: str,
        message_id: str,
        work: Callable[[Collection[QuarantineFile]], Awaitable[None]],
    ) -> HeldOutcome:
        """Do ``work`` with the files of the message, and log what became of it."""
        fields = event_fields(id=message_id, actor=address)
        async with self._at_once:
            try:
                files = await asyncio.to_thread(self._files, address, message_id)
                if not files:
                    return HeldOutcome.GONE
                await work(files)
            except NbstreamError as error:
                _log.warning("digest: a quarantined message was not %s: %s", what, error, extra=fields)
                return _outcome_of(error)
        _log.info("digest: a quarantined message was %s", what, extra=fields)
        return HeldOutcome.DONE

    def _files(self, address: str, message_id: str) -> list[QuarantineFile]:
        """Return the files of the message that wait for the user, the oldest first. Raises ``InputError``."""
        return [
            file
            for file in (self.waiting.messages(message_id) if message_id else ())
            if file.id == message_id and address in recipients_of(quarantine.read_note(file), self.user_of)
        ]


def _outcome_of(error: NbstreamError) -> HeldOutcome:
    match error:
        case ReleaseInDoubt():
            return HeldOutcome.IN_DOUBT
        case RelayRefused() if error.code >= 500:
            return HeldOutcome.REFUSED
        case _:
            return HeldOutcome.LATER


def recipients_of(note: QuarantineNote, user_of: UserOf = normalize_address) -> frozenset[str]:
    """Return the addresses of the users that a message waits for."""
    return frozenset(user_of(path.address) for path in note.envelope.recipients)


def read_held_message(file: QuarantineFile) -> HeldMessage:
    """Return what is shown of a message; only the beginning of its file is read. Raises ``InputError``."""
    note, texts = quarantine.read_header_texts(file, ("from", "subject"))
    sender = texts["from"] or note.envelope.sender.address
    return HeldMessage(
        file.id,
        file.at,
        note.verdict,
        note.probability,
        sender,
        texts["subject"],
        file.in_doubt,
        note.by_list,
    )


DIGEST_SOURCE = "digest"
"""The source of what users teach by the links of a digest."""

USER_PAGE_SOURCE = "my"
"""The source of what users teach on their page."""


@dataclass(frozen=True, slots=True)
class UserTeacher:
    """Teaches what users say by one way, whose name is ``source``; ``runtime`` returns what is in force now."""

    source: str
    runtime: Callable[[], Runtime]

    async def learn(
        self,
        address: str,
        message: LearnableMessage,
        label: str,
        reinforcement: Reinforcement = Reinforcement.NEVER,
    ) -> FeedbackResult:
        """Learn, from the user with this address, that the message is ``label``.

        A repeat changes nothing, unless ``reinforcement`` lets the user reinforce. Raises ``StoreUnavailable`` or
        ``CountsFull``; nothing is half done then.
        """
        spam_filter = await self.runtime().filter_of_teacher(address, label, self.source)
        lesson = await spam_filter.learn(message, label, self.source, address, reinforcement)
        log_lesson(lesson, self.source, address)
        return lesson
