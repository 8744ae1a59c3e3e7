"""Quarantined mail: what waits there, its release and its removal, for all mail or for that of one user.

Rules: ``user`` is the address of a user, normalized; None stands for all mail. A user sees and releases only what
is addressed to them, at whichever of their addresses, and learns of no other recipient. What they release goes to
them alone; the copy of another recipient waits on. To do a thing twice is harmless.

Nothing here blocks the event loop, and what is read of the disk is read one thing at a time in a thread. A message
is named by its id, and stands for all of its files: it has several where it came several times. The names of files
are never made of what a browser sends. Release and removal hold the lock of the file, like those of the command
line and of the retention, and are logged with who asked for them. Only the log names files.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.delivery import quarantine
from nbstream.delivery.quarantine import cursor_of, message_id_of
from nbstream.errors import InputError, NbstreamError, NotReleased, RelayRefused, ReleaseInDoubt
from nbstream.logs import event_fields
from nbstream.policy.feedback_source import Reinforcement
from nbstream.server.http.responses import error_problem
from nbstream.server.message_service import REQUEST_ERRORS
from nbstream.server.quarantine_release import QuarantineReleaser, shown_text
from nbstream.store.recent.message_rows import OutcomeKind, address_matches, normalize_address
from nbstream.web.admin.lesson_sentences import describe_lesson
from nbstream.web.requests import PageRefused

if TYPE_CHECKING:
    from nbstream.delivery.next_hop import NextHop
    from nbstream.delivery.quarantine import Quarantine, QuarantineFile, QuarantineNote, WaitingFile
    from nbstream.filter import FeedbackResult, LessonMessage
    from nbstream.mail.message import Message
    from nbstream.server.message_service import MessageHandler
    from nbstream.server.quarantine_release import ShownText

MAX_READ = 2000
"""The most messages whose files are opened for one page of a list, the newest first."""

MAX_COPIES = 20
"""The most files of one message that are opened for a list or shown; a sender chooses how often it comes."""

_CURSOR = re.compile(r"[0-9]{12}-[a-z2-7]{24}")  # what ``cursor_of`` returns
_OWN_FIELDS_BYTES = 64 * 1024  # our fields, which are removed before a message is looked at
_MAX_RELEASES = 4  # at a time, each with some copies of its message in memory

_log = logging.getLogger(__name__)

UserOf: TypeAlias = Callable[[str], str]
"""Returns the address, normalized, of the user to whom mail for this address belongs."""


class QuarantinedMail(NamedTuple):
    """All files of one message, the oldest first."""

    id: str
    files: Sequence[QuarantineFile]

    @property
    def at(self) -> float:
        """When it came last, in seconds since the epoch."""
        return self.files[-1].at

    @property
    def in_doubt(self) -> bool:
        """Whether one of the files may have been delivered already."""
        return any(file.in_doubt for file in self.files)


class ListedMail(NamedTuple):
    """A message in a list: ``sender`` and ``subject`` are what its header says, decoded.

    ``note`` is None where its file cannot be read, and then ``problem`` says why.
    """

    mail: QuarantinedMail
    note: QuarantineNote | None
    sender: str = ""
    subject: str = ""
    problem: str = ""


class MailOrder(StrEnum):
    """The order of the list; that of P(spam) begins with the lowest, where false positives are."""

    NEWEST = "newest"
    LEAST_SPAM = "least-spam"


class MailQuery(NamedTuple):
    """What is wanted of the list; addresses as ``normalize_address`` returns them, empty for any.

    ``cursor`` is the ``next_cursor`` of the page before, in the same order; anything else is the beginning.
    """

    sender: str = ""
    recipient: str = ""
    order: MailOrder = MailOrder.NEWEST
    cursor: str = ""

    @property
    def is_filtered(self) -> bool:
        """Whether not all messages are wanted."""
        return bool(self.sender or self.recipient)

    def matches(self, note: QuarantineNote) -> bool:
        """Return whether a message with this note is wanted."""
        sender, recipients = note.envelope.sender.address, note.envelope.recipients
        is_from = not self.sender or address_matches(sender, self.sender)
        return is_from and (
            not self.recipient or any(address_matches(each.address, self.recipient) for each in recipients)
        )


class MailPage(NamedTuple):
    """Some messages of the quarantine in the order of the query, of ``total`` that wait.

    ``next_cursor`` is empty where no others follow. ``read_to`` is the time of the oldest message that was looked
    at, None where all were that may be wanted.
    """

    rows: Sequence[ListedMail]
    total: int
    next_cursor: str
    read_to: float | None = None


class MailOutcome(StrEnum):
    """What became of what somebody asked for."""

    DONE = "done"
    GONE = "gone"
    """The message does not wait for them: it was released or removed, has expired, or never did."""
    IN_DOUBT = "in_doubt"
    """It may have been delivered already, and is delivered only if they ask for that again."""
    REFUSED = "refused"
    """The next hop refuses it for good."""
    LATER = "later"
    """It cannot be done now, and can be tried again."""


class MailResult(NamedTuple):
    """What became of one message; ``text``, which may have words of the next hop, is for administrators."""

    id: str
    outcome: MailOutcome
    text: str = "This message is not in the quarantine: it was released or removed, or has expired."


@contextmanager
def readable_quarantine() -> Iterator[None]:
    """Raise ``PageRefused`` in place of ``InputError``, and log the error."""
    try:
        yield
    except InputError as error:
        _log.warning("quarantine: cannot be read: %s", error)
        raise PageRefused(
            503, f"The quarantine cannot be read: {_reason(error)}. The log says which file."
        ) from error


class WebQuarantine:
    """The quarantine of an area; ``message_handler`` makes what reads and teaches a message by the rules of now.

    ``note_outcome`` remembers what became of a message, by its id, and who wanted it.
    """

    def __init__(
        self,
        waiting: Quarantine,
        next_hop: NextHop,
        message_handler: Callable[[], MessageHandler],
        note_outcome: Callable[[str, OutcomeKind, str], Awaitable[None]],
        user_of: UserOf = normalize_address,
    ) -> None:
        self._quarantine = waiting
        self._next_hop = next_hop
        self._message_handler = message_handler
        self._note_outcome = note_outcome
        self._user_of = user_of
        self._one_reader = asyncio.Semaphore(1)
        self._releases = asyncio.Semaphore(_MAX_RELEASES)

    async def list_page(self, user: str | None, query: MailQuery, count: int) -> MailPage:
        """Return ``count`` messages at most. Raises ``InputError``."""

        def is_wanted(note: QuarantineNote) -> bool:
            return query.matches(note) and self._is_for(note, user)

        def read() -> MailPage:
            files = self._quarantine.files() if user is None else self._quarantine.files_for(user)
            needs_notes = user is not None or query.is_filtered
            return _find_page(self._quarantine, files, query, count, is_wanted if needs_notes else None)

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def find(self, user: str | None, message_id: str) -> QuarantinedMail | None:
        """Return the message, or None where it does not wait for the user. Raises ``InputError``."""
        return (await self.find_all(user, [message_id])).get(message_id)

    async def find_all(self, user: str | None, message_ids: Sequence[str]) -> Mapping[str, QuarantinedMail]:
        """Return those of these messages that wait for the user, by id. Raises ``InputError``."""

        def read() -> Mapping[str, QuarantinedMail]:
            files = self._quarantine.files(message_ids[0] if len(message_ids) == 1 else "")
            found = [file for file in files if message_id_of(file) in message_ids]
            return mails_of(
                file
                for file in map(self._quarantine.message_at, sorted(found))
                if user is None or self._is_for(quarantine.read_note(file), user)
            )

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def rows(self, mails: Iterable[QuarantinedMail]) -> Sequence[ListedMail]:
        """Return what a list says of these messages."""
        async with self._one_reader:
            return await asyncio.to_thread(lambda: list(map(read_row, mails)))

    async def show(self, mail: QuarantinedMail) -> tuple[Sequence[QuarantineNote], ShownText]:
        """Return the notes of the first files of a message, and its header and text. Raises ``InputError``."""
        reader = self._message_handler().runtime.message_reader

        def read() -> tuple[Sequence[QuarantineNote], ShownText]:
            note, content = quarantine.read_message(mail.files[0], reader.limits.look_bytes + _OWN_FIELDS_BYTES)
            notes = [note, *map(quarantine.read_note, mail.files[1:MAX_COPIES])]
            return notes, shown_text(reader.read_incoming(content))

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def message(self, mail: QuarantinedMail) -> Message:
        """Return the message itself, as it was checked, to teach it. Raises ``InputError``."""
        read_incoming = self._message_handler().runtime.message_reader.read_incoming
        async with self._one_reader:
            return await asyncio.to_thread(lambda: read_incoming(quarantine.read_message(mail.files[0])[1]))

    async def learn(
        self,
        user: str | None,
        message: LessonMessage,
        label: str,
        actor: str,
        reinforcement: Reinforcement = Reinforcement.NEVER,
    ) -> FeedbackResult:
        """Learn the label, of a user in their own model where they have one.

        A repeat changes nothing, unless ``reinforcement`` lets them reinforce. Raises ``StoreUnavailable`` or
        ``CountsFull``; nothing is half done then.
        """
        return await self._message_handler().learn(message, label, actor, reinforcement, user=user or "")

    async def release(
        self, user: str | None, mail: QuarantinedMail, actor: str, *, again: bool = False
    ) -> MailResult:
        """Teach the message as ham and deliver all of its files; ``again``: also those that are in doubt."""
        runtime = self._message_handler().runtime

        def is_for(address: str) -> bool:
            return user is None or self._user_of(address) == user

        learn_ham = partial(self.learn, user, label="ham", actor=actor)
        releaser = QuarantineReleaser(learn_ham, runtime.message_reader, runtime.header_policy, self._next_hop)
        async with self._releases:
            lessons, error = await releaser.release(mail.files, again=again, is_for=is_for)
        taught = describe_lesson(lessons[0]) if lessons else ""
        if error:
            _log.warning(
                "quarantine: a message was not released: %s", error, extra=event_fields(id=mail.id, actor=actor)
            )
            aside = f". The message was taught as ham before: {taught}" if taught else ""
            return MailResult(mail.id, _outcome_of(error), f"{_describe_error(error)}{aside}")
        _log.info("quarantine: a message was released", extra=event_fields(id=mail.id, actor=actor))
        with suppress(InputError):  # it was delivered, whatever can be read of the others
            if user is None or not await asyncio.to_thread(self._quarantine.messages, mail.id):
                await self._note_outcome(mail.id, OutcomeKind.RELEASED, actor)
        return MailResult(mail.id, MailOutcome.DONE, f"The message was delivered. {taught}")

    async def delete(self, mail: QuarantinedMail, actor: str) -> MailResult:
        """Remove all files of the message."""
        try:
            await asyncio.to_thread(_remove_files, mail)
        except (NbstreamError, OSError) as error:
            _log.warning(
                "quarantine: a message was not deleted: %s", error, extra=event_fields(id=mail.id, actor=actor)
            )
            return MailResult(mail.id, MailOutcome.LATER, _reason(error))
        _log.info("quarantine: a message was deleted", extra=event_fields(id=mail.id, actor=actor))
        await self._note_outcome(mail.id, OutcomeKind.DELETED, actor)
        return MailResult(mail.id, MailOutcome.DONE, "The message was deleted.")

    def _is_for(self, note: QuarantineNote, user: str | None) -> bool:
        return user is None or any(self._user_of(path.address) == user for path in note.envelope.recipients)


def mails_of(files: Iterable[QuarantineFile]) -> Mapping[str, QuarantinedMail]:
    """Return the messages of which these are files, the oldest first, by id."""
    of_message: dict[str, list[QuarantineFile]] = {}
    for file in files:
        of_message.setdefault(file.id, []).append(file)
    return {message_id: QuarantinedMail(message_id, its) for message_id, its in of_message.items()}


def _find_page(
    waiting: Quarantine,
    files: Collection[WaitingFile],
    query: MailQuery,
    count: int,
    is_wanted: Callable[[QuarantineNote], bool] | None,
) -> MailPage:
    """Return ``count`` messages at most, of those with a note that ``is_wanted``; with None all are.

    Of all messages only the names of their files are known. What needs more opens the files of ``MAX_READ``
    messages at most, and the page says how far it came. The least certain messages are one page, since ham is
    among the first ones.
    """
    last: dict[str, WaitingFile] = {}  # of each message
    for file in files:
        last[message_id_of(file)] = max(file, last.get(message_id_of(file), ""))
    below = query.cursor if _CURSOR.fullmatch(query.cursor) else ":"  # ":" sorts behind all digits
    newest = heapq.nlargest(MAX_READ + 1, (file for file in last.values() if cursor_of(file) < below))
    is_cut = len(newest) > MAX_READ
    cursors = {message_id_of(file): cursor_of(file) for file in newest[:MAX_READ]}
    read = sorted(file for file in files if message_id_of(file) in cursors)
    of_message = mails_of(map(waiting.message_at, read))
    mails = [of_message[message_id] for message_id in cursors]
    found = (mail for mail in mails if is_wanted is None or any(map(is_wanted, _read_notes(mail))))
    if query.order is MailOrder.LEAST_SPAM:
        least = heapq.nsmallest(count, found, key=_probability)
        return MailPage(list(map(read_row, least)), len(last), "", mails[-1].at if is_cut else None)
    first = list(islice(found, count + 1))
    rows = list(map(read_row, first[:count]))
    if len(first) > count:
        return MailPage(rows, len(last), cursors[first[count - 1].id])
    if is_cut:
        return MailPage(rows, len(last), cursors[mails[-1].id], mails[-1].at)
    return MailPage(rows, len(last), "")


def _read_notes(mail: QuarantinedMail) -> Iterator[QuarantineNote]:
    """Yield the notes of those files that can be read, the newest first."""
    for file in reversed(mail.files[-MAX_COPIES:]):
        with suppress(InputError):
            yield quarantine.read_note(file)


def _probability(mail: QuarantinedMail) -> float:
    note = next(_read_notes(mail), None)
    return note.probability if note else 2.0  # more than any: such files come last


def read_row(mail: QuarantinedMail) -> ListedMail:
    """Return what a list says of a message; only the beginning of its newest file is read."""
    try:
        note, texts = quarantine.read_header_texts(mail.files[-1], ("from", "subject"))
    except InputError as error:
        return ListedMail(mail, None, problem=_reason(error))
    return ListedMail(mail, note, texts["from"] or note.envelope.sender.address, texts["subject"])


def _remove_files(mail: QuarantinedMail) -> None:
    for file in mail.files:
        with quarantine.locked(file):
            quarantine.remove(file)


def _outcome_of(error: NbstreamError) -> MailOutcome:
    match error:
        case ReleaseInDoubt():
            return MailOutcome.IN_DOUBT
        case RelayRefused() if error.code >= 500:
            return MailOutcome.REFUSED
        case _:
            return MailOutcome.LATER


def _describe_error(error: NbstreamError) -> str:
    """Return why a message was not released: for an error of a lesson as for any lesson, else in its own words."""
    if isinstance(error, NotReleased | InputError) or not isinstance(error, REQUEST_ERRORS):
        return _reason(error)
    return error_problem(error).detail


def _reason(error: Exception) -> str:
    """Return why something failed, without the file that the system's error names."""
    cause = error.__cause__ if isinstance(error, InputError) else error
    return (cause.strerror or type(cause).__name__) if isinstance(cause, OSError) else str(error)
