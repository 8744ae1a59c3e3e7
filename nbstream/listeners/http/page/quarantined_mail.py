"""The quarantine as the views use it: what waits there, what is shown of it, its release and its removal.

Rules: nothing here blocks the event loop, and what is read of the disk is read one thing at a time in a thread. A
message is named by its id, and stands for all of its files: it has several where it came several times. The names
of files are never made of what a browser sends. Release and removal hold the lock of the file, like those of the
command line and of the retention, and are logged with who asked for them. Only the log names files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.errors import InputError, NbstreamError, NotReleased, ReleaseInDoubt
from nbstream.listeners.http.page.lesson_sentences import describe_lesson
from nbstream.listeners.http.page.quarantine_list import MAX_COPIES, QuarantinedMail, find_page, find_until
from nbstream.listeners.http.responses import error_problem
from nbstream.listeners.request_errors import is_request_error
from nbstream.logs import event_fields
from nbstream.policy.actions import ActionKind
from nbstream.policy.lesson_source import Insistence
from nbstream.relay import quarantine
from nbstream.relay.quarantine_releaser import QuarantineReleaser
from nbstream.relay.quarantine_text import shown_text
from nbstream.store.recent.message_rows import OutcomeKind

if TYPE_CHECKING:
    from nbstream.filter import Lesson
    from nbstream.listeners.http.page.quarantine_list import MailQuery
    from nbstream.listeners.message_service import MessageHandler
    from nbstream.mail.message import Message
    from nbstream.relay.next_hop import NextHop
    from nbstream.relay.quarantine import Quarantine, QuarantinedMessage, QuarantineNote
    from nbstream.relay.quarantine_text import ShownText

_log = logging.getLogger(__name__)

GONE = "This message is not in the quarantine: it was released or removed, or has expired."

_OWN_FIELDS_BYTES = 64 * 1024  # our fields, which are removed before a message is looked at
_MAX_RELEASES = 4  # at a time, each with some copies of its message in memory


@dataclass(frozen=True, slots=True)
class ListedMail:
    """A message in the list; ``note`` is None where its file cannot be read, and then ``problem`` says why."""

    mail: QuarantinedMail
    note: QuarantineNote | None
    subject: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of the list; see ``MailPage``."""

    rows: Sequence[ListedMail]
    total: int
    next_cursor: str
    read_to: float | None


@dataclass(frozen=True, slots=True)
class ShownMail:
    """What is shown of one message: the notes of its first files, and its header and text."""

    mail: QuarantinedMail
    notes: Sequence[QuarantineNote]
    text: ShownText


@dataclass(frozen=True, slots=True)
class MailResult:
    """What became of one message.

    ``text`` may have words of the next hop. ``in_doubt``: it is released only if somebody asks for that again.
    """

    id: str
    is_done: bool
    text: str
    in_doubt: bool = False


def describe_unreadable(error: InputError) -> str:
    """Log that the quarantine cannot be read, and return how the page says it."""
    _log.warning("quarantine: it cannot be read: %s", error)
    return f"The quarantine cannot be read: {_reason(error)}. The log of the daemon names the file."


class PageQuarantine:
    """The quarantine of the page; ``message_handler`` makes what reads and teaches a message.

    ``note_outcome`` remembers what became of a message, by its id, and who wanted it.
    """

    def __init__(
        self,
        waiting: Quarantine,
        next_hop: NextHop,
        message_handler: Callable[[], MessageHandler],
        note_outcome: Callable[[str, OutcomeKind, str], Awaitable[None]],
    ) -> None:
        self._quarantine = waiting
        self._next_hop = next_hop
        self._message_handler = message_handler
        self._note_outcome = note_outcome
        self._one_reader = asyncio.Semaphore(1)
        self._releases = asyncio.Semaphore(_MAX_RELEASES)

    def is_used(self) -> bool:
        """Return whether mail may come into the quarantine, as it is configured now."""
        return self._message_handler().runtime.rules.may_take(ActionKind.QUARANTINE)

    async def list_page(self, query: MailQuery, count: int) -> ListPage:
        """Return ``count`` messages at most. Raises ``InputError``."""

        def read() -> ListPage:
            page = find_page(self._by_id().values(), query, count)
            return ListPage([_listed(mail) for mail in page.mails], page.total, page.next_cursor, page.read_to)

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def find(self, message_id: str) -> QuarantinedMail | None:
        """Return the message, or None. Raises ``InputError``."""
        async with self._one_reader:
            files = await asyncio.to_thread(self._quarantine.messages, message_id)
        return QuarantinedMail(message_id, files) if files else None

    async def find_all(self, message_ids: Sequence[str]) -> Mapping[str, QuarantinedMail]:
        """Return those of these messages that wait, by id. Raises ``InputError``."""
        async with self._one_reader:
            by_id = await asyncio.to_thread(self._by_id)
        return {message_id: by_id[message_id] for message_id in message_ids if message_id in by_id}

    async def find_until(self, query: MailQuery, until: str) -> tuple[Sequence[QuarantinedMail], str]:
        """Return the messages that ``query`` finds, ``MAX_READ`` at most, and the place of the newest of them.

        With such a place as ``until`` none that came later is found. Raises ``InputError``.
        """
        async with self._one_reader:
            return await asyncio.to_thread(lambda: find_until(self._by_id().values(), query, until))

    async def subjects(self, mails: Sequence[QuarantinedMail]) -> Sequence[ListedMail]:
        """Return what the list says of these messages."""
        async with self._one_reader:
            return await asyncio.to_thread(lambda: [_listed(mail) for mail in mails])

    async def show(self, mail: QuarantinedMail) -> ShownMail:
        """Return what is shown of a message. Raises ``InputError``."""
        reader = self._message_handler().runtime.message_reader

        def read() -> ShownMail:
            note, content = quarantine.read_message(mail.files[0], reader.limits.look_bytes + _OWN_FIELDS_BYTES)
            notes = [note, *(quarantine.read_subject(file)[0] for file in mail.files[1:MAX_COPIES])]
            return ShownMail(mail, notes, shown_text(reader.read_incoming(content)))

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def message(self, mail: QuarantinedMail) -> Message:
        """Return the message itself, as it was checked, to teach it. Raises ``InputError``."""
        read_incoming = self._message_handler().runtime.message_reader.read_incoming
        async with self._one_reader:
            return await asyncio.to_thread(lambda: read_incoming(quarantine.read_message(mail.files[0])[1]))

    async def release(self, mail: QuarantinedMail, actor: str, *, again: bool) -> MailResult:
        """Teach the message as ham and deliver all of its files; ``again``: also those that are in doubt."""
        handler = self._message_handler()
        runtime = handler.runtime

        lessons: list[Lesson] = []

        async def learn_ham(message: Message) -> Lesson:
            lessons.append(await handler.learn(message, "ham", actor, Insistence.NEVER))
            return lessons[-1]

        releaser = QuarantineReleaser(learn_ham, runtime.message_reader, runtime.header_policy, self._next_hop)
        try:
            for file in mail.files:
                async with self._releases:
                    await releaser.release(file, again=again)
        except NbstreamError as error:
            _log.warning(
                "quarantine: a message was not released: %s", error, extra=event_fields(id=mail.id, actor=actor)
            )
            why = _describe_error(error)
            if lessons:
                why = f"{why}. The message was taught as ham before: {describe_lesson(lessons[0])}"
            return MailResult(mail.id, False, why, isinstance(error, ReleaseInDoubt))
        await self._finish(mail, OutcomeKind.RELEASED, actor)
        return MailResult(mail.id, True, f"The message was delivered. {describe_lesson(lessons[0])}")

    async def delete(self, mail: QuarantinedMail, actor: str) -> MailResult:
        """Remove all files of the message."""
        try:
            await asyncio.to_thread(_remove_files, mail)
        except (NbstreamError, OSError) as error:
            _log.warning(
                "quarantine: a message was not deleted: %s", error, extra=event_fields(id=mail.id, actor=actor)
            )
            return MailResult(mail.id, False, _reason(error))
        await self._finish(mail, OutcomeKind.DELETED, actor)
        return MailResult(mail.id, True, "The message was deleted.")

    async def _finish(self, mail: QuarantinedMail, kind: OutcomeKind, actor: str) -> None:
        """Log what became of a message, and note it where lists show it."""
        _log.info("quarantine: a message was %s", kind, extra=event_fields(id=mail.id, actor=actor))
        await self._note_outcome(mail.id, kind, actor)

    def _by_id(self) -> dict[str, QuarantinedMail]:
        files: dict[str, list[QuarantinedMessage]] = {}
        for file in self._quarantine.messages():
            files.setdefault(file.id, []).append(file)
        return {message_id: QuarantinedMail(message_id, of_message) for message_id, of_message in files.items()}


def _listed(mail: QuarantinedMail) -> ListedMail:
    try:
        note, subject = quarantine.read_subject(mail.files[-1])
    except InputError as error:
        return ListedMail(mail, None, "", _reason(error))
    return ListedMail(mail, note, subject)


def _remove_files(mail: QuarantinedMail) -> None:
    for file in mail.files:
        with quarantine.locked(file):
            quarantine.remove(file)


def _describe_error(error: NbstreamError) -> str:
    """Return why a message was not released: for an error of a lesson as for any lesson, else in its own words."""
    if isinstance(error, NotReleased | InputError) or not is_request_error(error):
        return _reason(error)
    return error_problem(error).detail


def _reason(error: Exception) -> str:
    """Return why something failed, without the file that the system's error names."""
    cause = error.__cause__ if isinstance(error, InputError) else error
    return (cause.strerror or type(cause).__name__) if isinstance(cause, OSError) else str(error)
