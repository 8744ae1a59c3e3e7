"""The view of the quarantine: what waits there, its header and text, release and deletion, also of many at once.

Rules: what cannot be taken back is asked for twice: a deletion, and the release of what may have been delivered
already. Each message has a result of its own, since one may be released while another one is refused.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nbstream.delivery import quarantine
from nbstream.errors import InputError, NbstreamError, NotReleased, ReleaseInDoubt
from nbstream.logs import event_fields
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.verdict import ActionKind
from nbstream.server.http.responses import error_problem
from nbstream.server.message_service import is_request_error
from nbstream.server.quarantine_release import QuarantineReleaser, shown_text
from nbstream.store.recent.message_rows import OutcomeKind, address_matches
from nbstream.web.admin.lesson_sentences import describe_lesson
from nbstream.web.forms import read_address, read_selected_ids
from nbstream.web.requests import Page, PageRefused, PageRoute, View

if TYPE_CHECKING:
    from nbstream.delivery.next_hop import NextHop
    from nbstream.delivery.quarantine import Quarantine, QuarantineFile, QuarantineNote
    from nbstream.filter import FeedbackResult
    from nbstream.mail.message import Message
    from nbstream.server.message_service import MessageHandler
    from nbstream.server.quarantine_release import ShownText
    from nbstream.web.admin.messages_view import FindRows
    from nbstream.web.requests import Answer, PageRequest


# The list of the quarantine: filtered by addresses, the newest or the least certain first.
#
# Rules: of all messages only the names of their files are known. What needs more opens the files of ``MAX_READ``
# messages at most, the newest first, and says how far it came. A message that came often has many files: the
# last ``MAX_COPIES`` of them are opened.

MAX_READ = 2000
"""The most messages whose files are opened for one page."""

MAX_COPIES = 20
"""The most files of one message that are opened for a list or shown; a sender chooses how often it comes."""

_MAX_TIME_DIGITS = 12  # as in the names of files
_UNREADABLE = 2.0  # in place of P(spam), of which it is more than any: such files come last


@dataclass(frozen=True, slots=True)
class QuarantinedMail:
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


class MailOrder(StrEnum):
    """The order of the list; that of P(spam) begins with the lowest, where false positives are."""

    NEWEST = "newest"
    LEAST_SPAM = "least-spam"


@dataclass(frozen=True, slots=True)
class MailQuery:
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

    def matches(self, notes: Sequence[QuarantineNote]) -> bool:
        """Return whether a message with these notes is wanted."""
        return any(self._matches_note(note) for note in notes) or not self.is_filtered

    def _matches_note(self, note: QuarantineNote) -> bool:
        if self.sender and not address_matches(note.envelope.sender.address, self.sender):
            return False
        recipients = note.envelope.recipients
        return not self.recipient or any(address_matches(each.address, self.recipient) for each in recipients)


@dataclass(frozen=True, slots=True)
class MailPage:
    """Some messages of the quarantine in the order of the query, of ``total`` that wait.

    ``next_cursor`` is empty where no others follow. ``read_to`` is the time of the oldest message that was looked
    at, None where all were that may be wanted.
    """

    mails: Sequence[QuarantinedMail]
    total: int
    next_cursor: str
    read_to: float | None = None


def find_page(mails: Collection[QuarantinedMail], query: MailQuery, count: int) -> MailPage:
    """Return ``count`` messages at most. It opens files."""
    if query.order is MailOrder.LEAST_SPAM:
        return _page_by_probability(mails, query, count)
    below = _read_time_cursor(query.cursor)
    older = mails if below is None else [mail for mail in mails if (mail.at, mail.id) < below]
    most = MAX_READ if query.is_filtered else count
    newest = heapq.nlargest(most + 1, older, key=lambda mail: (mail.at, mail.id))
    found: list[QuarantinedMail] = []
    for mail in newest[:most]:
        if query.is_filtered and not query.matches(_read_notes(mail.files[-MAX_COPIES:])):
            continue
        if len(found) == count:
            return MailPage(found, len(mails), _time_cursor(found[-1]))
        found.append(mail)
    if len(newest) <= most:
        return MailPage(found, len(mails), "")
    read_to = newest[most - 1]
    return MailPage(found, len(mails), _time_cursor(read_to), read_to.at if query.is_filtered else None)


def find_until(
    mails: Collection[QuarantinedMail], query: MailQuery, until: str
) -> tuple[Sequence[QuarantinedMail], str]:
    """Return the newest messages that ``query`` finds, ``MAX_READ`` at most, and the place of the newest of them.

    With such a place as ``until`` none that came later is found. It opens files.
    """
    newest = _read_time_cursor(until)
    known = mails if newest is None else [mail for mail in mails if (mail.at, mail.id) <= newest]
    found = find_page(known, replace(query, order=MailOrder.NEWEST, cursor=""), MAX_READ).mails
    return found, _time_cursor(found[0]) if found else ""


def _page_by_probability(mails: Collection[QuarantinedMail], query: MailQuery, count: int) -> MailPage:
    """Return the least certain messages: they are one page, since ham is among the first ones."""
    newest = heapq.nlargest(MAX_READ, mails, key=lambda mail: (mail.at, mail.id))
    ranked = []
    for mail in newest:
        notes = _read_notes(mail.files[-MAX_COPIES if query.is_filtered else -1 :])
        if query.matches(notes):
            ranked.append((notes[-1].probability if notes else _UNREADABLE, -mail.at, mail.id, mail))
    found = [mail for *_, mail in heapq.nsmallest(count, ranked)]
    return MailPage(found, len(mails), "", newest[-1].at if len(mails) > MAX_READ else None)


def _read_notes(files: Sequence[QuarantineFile]) -> list[QuarantineNote]:
    """Return the notes of those files that can be read."""
    notes = []
    for file in files:
        with suppress(InputError):
            notes.append(quarantine.read_note(file))
    return notes


def _time_cursor(mail: QuarantinedMail) -> str:
    return f"{mail.at:.0f}-{mail.id}"


def _read_time_cursor(cursor: str) -> tuple[float, str] | None:
    at, _, message_id = cursor.partition("-")
    return (float(at), message_id) if at.isascii() and at.isdigit() and len(at) <= _MAX_TIME_DIGITS else None


# The quarantine as the views use it: what waits there, what is shown of it, its release and its removal.
#
# Rules: nothing here blocks the event loop, and what is read of the disk is read one thing at a time in a
# thread. A message is named by its id, and stands for all of its files: it has several where it came several
# times. The names of files are never made of what a browser sends. Release and removal hold the lock of the
# file, like those of the command line and of the retention, and are logged with who asked for them. Only the log
# names files.

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
class MailResult:
    """What became of one message.

    ``text`` may have words of the next hop. ``in_doubt``: it is released only if somebody asks for that again.
    """

    id: str
    is_done: bool
    text: str
    in_doubt: bool = False


@contextmanager
def readable_quarantine() -> Iterator[None]:
    """Raise ``PageRefused`` in place of ``InputError``, and log the error."""
    try:
        yield
    except InputError as error:
        _log.warning("quarantine: cannot be read: %s", error)
        raise PageRefused(
            503, f"The quarantine cannot be read: {_reason(error)}. The log of the daemon names the file."
        ) from error


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

    async def list_page(self, query: MailQuery, count: int) -> tuple[MailPage, Sequence[ListedMail]]:
        """Return ``count`` messages at most, and what the list says of them. Raises ``InputError``."""

        def read() -> tuple[MailPage, Sequence[ListedMail]]:
            page = find_page(self._by_id().values(), query, count)
            return page, [_listed(mail) for mail in page.mails]

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

    async def show(self, mail: QuarantinedMail) -> tuple[Sequence[QuarantineNote], ShownText]:
        """Return the notes of the first files of a message, and its header and text. Raises ``InputError``."""
        reader = self._message_handler().runtime.message_reader

        def read() -> tuple[Sequence[QuarantineNote], ShownText]:
            note, content = quarantine.read_message(mail.files[0], reader.limits.look_bytes + _OWN_FIELDS_BYTES)
            notes = [note, *(quarantine.read_subject(file)[0] for file in mail.files[1:MAX_COPIES])]
            return notes, shown_text(reader.read_incoming(content))

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

        lessons: list[FeedbackResult] = []

        async def learn_ham(message: Message) -> FeedbackResult:
            lessons.append(await handler.learn(message, "ham", actor, Reinforcement.NEVER))
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
        files: dict[str, list[QuarantineFile]] = {}
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


_ROWS = 50
_SECONDS = 30.0  # nothing begins later than this after the first message: a browser waits for the answer
_NO_TIME = "The release was not tried, because the others took too long. Release the message once more."


class QuarantineView(View):
    """``/ui/quarantine``; a message of it is shown by the view of one message."""

    navigation = ("/ui/quarantine", "Quarantine")

    def __init__(self, waiting: PageQuarantine, find_rows: FindRows) -> None:
        self._quarantine = waiting
        self._find_rows = find_rows

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return (
            PageRoute("GET", "/ui/quarantine", self._list),
            PageRoute("POST", "/ui/quarantine", self._change),
        )

    async def _list(self, request: PageRequest) -> Answer:
        query, filters, problems = _read_query(request.query)
        with readable_quarantine():
            page, rows = await self._quarantine.list_page(query, _ROWS)
        values = {
            "page": page,
            "rows": rows,
            "query": query,
            "filters": filters,
            "problems": problems,
            "orders": list(MailOrder),
            "here": _link(filters, cursor=query.cursor),
            "first": _link(filters),
            "older": _link(filters, cursor=page.next_cursor),
            "select_all": _link(filters, cursor=query.cursor, select="all"),
            "selects_all": request.query.get("select") == "all",
            "is_used": self._quarantine.is_used(),
        }
        return Page("admin/quarantine.html", values)

    async def _change(self, request: PageRequest) -> Answer:
        if request.form_value("action") == "delete_matching":
            return await self._delete_matching(request)
        ids = read_selected_ids(request)
        with readable_quarantine():
            mails = await self._quarantine.find_all(ids)
        gone = [MailResult(each, False, GONE) for each in ids if each not in mails]
        actor = request.session.name
        match request.form_value("action"):
            case "release":
                again = request.form_value("again") == "yes"
                results = await self._release_all(list(mails.values()), actor, again=again)
            case "delete" if request.form_value("confirmed") == "yes":
                results = [await self._quarantine.delete(mail, actor) for mail in mails.values()]
            case "delete":
                rows = await self._quarantine.subjects(list(mails.values()))
                return Page("admin/quarantine_delete.html", {"rows": rows, "gone": gone, "found": 0})
            case _:
                raise PageRefused(400, "Nothing was changed: the quarantine has no such action.")
        return Page(
            "admin/quarantine_results.html", {"results": [*results, *gone], "rows": await self._find_rows(ids)}
        )

    async def _delete_matching(self, request: PageRequest) -> Answer:
        """Delete all that the filters find, of what there was when this was asked; ``MAX_READ`` at most."""
        fields = {name: request.form_value(name) for name in ("sender", "recipient", "until")}
        query, filters, problems = _read_query({**fields, "before": ""})
        if problems:  # a filter that is not understood finds all
            raise PageRefused(400, problems[0])
        with readable_quarantine():
            found, until = await self._quarantine.find_until(query, fields["until"])
        if request.form_value("confirmed") != "yes" or not fields["until"]:
            values = {"gone": (), "rows": (), "found": len(found), "most": MAX_READ}
            return Page("admin/quarantine_delete.html", {**values, "filters": filters, "until": until})
        results, stop = [], time.monotonic() + _SECONDS
        for mail in found:
            if time.monotonic() >= stop:
                break
            results.append(await self._quarantine.delete(mail, request.session.name))
        failed = [result for result in results if not result.is_done]
        values = {"results": failed, "rows": {}, "deleted": len(results) - len(failed)}
        return Page("admin/quarantine_results.html", {**values, "left": len(found) - len(results)})

    async def _release_all(
        self, mails: Sequence[QuarantinedMail], actor: str, *, again: bool
    ) -> Sequence[MailResult]:
        """Release one message after the other, as long as there is time to begin."""
        results = []
        until = time.monotonic() + _SECONDS
        for mail in mails:
            if time.monotonic() < until:
                results.append(await self._quarantine.release(mail, actor, again=again))
            else:
                results.append(MailResult(mail.id, False, _NO_TIME))
        return results


def _read_query(fields: Mapping[str, str]) -> tuple[MailQuery, Mapping[str, str], Sequence[str]]:
    """Return what is asked for, the filters as they were understood, and what was not."""
    filters = {name: fields.get(name, "").strip() for name in ("sender", "recipient", "order")}
    if filters["order"] not in set(MailOrder):
        filters["order"] = MailOrder.NEWEST
    problems: list[str] = []
    sender, recipient = (read_address(filters, name, problems) for name in ("sender", "recipient"))
    order = MailOrder(filters["order"])
    return MailQuery(sender, recipient, order, fields.get("before", "")), filters, problems


def _link(filters: Mapping[str, str], cursor: str = "", select: str = "") -> str:
    """Return the address of a page of the list."""
    fields = {**filters, "before": cursor, "select": select}
    if fields["order"] == MailOrder.NEWEST:
        del fields["order"]
    query = urlencode({name: value for name, value in fields.items() if value})
    return f"/ui/quarantine?{query}" if query else "/ui/quarantine"
