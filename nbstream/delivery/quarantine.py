"""The quarantine: a Maildir of messages that were accepted, and wait until somebody releases or deletes them.

Rules: the first field of a file is JSON with all that a release needs, the parameters of the envelope included;
the message with its verdict follows. The name of the file has the id of the message and the time, so that no file
is opened to find one. A file in ``new`` waits. A file in ``cur`` was being handed to the next hop when its release
ended without a reply: it may have been delivered, and commands say so. Whoever releases or removes a message has
locked its file (flock). Messages that are older than the configured days are removed.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import itertools
import json
import logging
import os
import pathlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

from nbstream.delivery import maildir
from nbstream.delivery.maildir import MaildirRoom
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.settings import QuarantineSettings
from nbstream.durable_files import sync_folder
from nbstream.errors import InputError, NotReleased
from nbstream.logs import event_fields
from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.header import QUARANTINE_FIELD

_FILE_NAME = re.compile(r"(?P<at>[0-9]{1,12})\.[^:]*,I=(?P<id>[a-z2-7]{24})(?::2,P)?")
_NOTE_FIELD_START = f"{QUARANTINE_FIELD}: ".encode("ascii")
_MAX_NOTE_BYTES = 64 << 20
_HEADER_SEARCH_BYTES = 16 * 1024  # of a message, for its subject and the like
_DAY_SECONDS = 86_400

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuarantineNote:
    """What the file says beside the message.

    ``policy`` is the one that decided, empty where there is only one. ``by_list``: its sender is on a list of
    blocked senders, whatever the probability is.
    """

    id: str
    verdict: str
    probability: float
    policy: str
    envelope: Envelope
    by_list: bool = False


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """One file of the quarantine.

    ``at`` is when the message came, in seconds since 1970. ``in_doubt``: it may have been delivered already.
    """

    id: str
    at: float
    path: pathlib.Path
    in_doubt: bool


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """How many messages are left, how many were removed, and why the first of the others could not be removed."""

    remaining: int
    removed: int
    problem: str = ""


QuarantineTransition: TypeAlias = Callable[[QuarantinedMessage], QuarantinedMessage]


class Quarantine:
    """The quarantine at ``path``, which is made when it is first needed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._room = MaildirRoom(path)

    async def problem(self) -> str | None:
        """Return why no message could be added now, or None."""
        return await self._room.problem()

    def make_draft(self, note: QuarantineNote, fields: bytes, content: bytes) -> maildir.MaildirDraft:
        """Return the file of a message; ``fields`` with LF line ends go on top of the message."""
        name = f"{maildir.unique_name()},I={note.id}"
        return maildir.MaildirDraft(
            self._path, name, _NOTE_FIELD_START + _render_note(note) + b"\n" + fields, content, self._room
        )

    def messages(self, prefix: str = "") -> list[QuarantinedMessage]:
        """Return the messages whose id begins with ``prefix``, the oldest first. No file is opened.

        Raises ``InputError``.
        """
        messages = []
        for folder in ("new", "cur"):
            try:
                with os.scandir(self._path / folder) as entries:
                    for entry in entries:
                        if prefix and f",I={prefix}" not in entry.name:
                            continue  # sooner than the pattern says so
                        name = _FILE_NAME.fullmatch(entry.name)
                        if name and name["id"].startswith(prefix):
                            path = pathlib.Path(entry.path)
                            messages.append(
                                QuarantinedMessage(name["id"], float(name["at"]), path, folder == "cur")
                            )
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InputError(f"{self._path / folder}: {error.strerror}") from error
        return sorted(messages, key=lambda message: (message.at, message.path.name))

    def remove_expired(self, days: int | None, limit: int = 1000) -> RetentionResult:
        """Remove at most ``limit`` messages that are older than ``days``; None removes nothing.

        Raises ``InputError``.
        """
        messages = self.messages()
        until = time.time() - days * _DAY_SECONDS if days is not None else 0.0
        removed, problem = 0, ""
        for message in itertools.takewhile(lambda message: message.at < until, messages):
            if removed == limit:
                break
            try:
                with locked(message):
                    message.path.unlink()  # should it come back after a power loss, it is removed again
                removed += 1
            except NotReleased:
                continue  # it is being released
            except (InputError, OSError) as error:
                problem = problem or str(error)  # the messages after it are removed all the same
        return RetentionResult(len(messages) - removed, removed, problem)


@contextmanager
def locked(message: QuarantinedMessage) -> Iterator[None]:
    """Keep others from releasing or removing the message.

    Raises ``NotReleased`` where somebody else does that already, or has done it. Raises ``InputError``.
    """
    already_removed = NotReleased("released or removed by somebody else just now")
    try:
        descriptor = os.open(message.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise already_removed from None
    except OSError as error:
        raise InputError(f"{message.path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotReleased("is being released by somebody else") from None
        if not message.path.exists():
            raise already_removed
        yield
    finally:
        os.close(descriptor)


def mark_in_doubt(message: QuarantinedMessage) -> QuarantinedMessage:
    """Mark the message, durably, as being handed over, so that nobody delivers it again unknowingly."""
    return _move(
        message, message.path.parent.parent / "cur" / f"{message.path.name.partition(':')[0]}:2,P", in_doubt=True
    )


def mark_waiting(message: QuarantinedMessage) -> QuarantinedMessage:
    """Mark the message, durably, as not taken by the next hop."""
    return _move(message, message.path.parent.parent / "new" / message.path.name.partition(":")[0], in_doubt=False)


def remove(message: QuarantinedMessage) -> None:
    """Remove the file of the message, durably; whoever does has locked it. Raises ``OSError``."""
    message.path.unlink()
    sync_folder(message.path.parent)


def _move(message: QuarantinedMessage, path: pathlib.Path, *, in_doubt: bool) -> QuarantinedMessage:
    if path != message.path:
        message.path.rename(path)
        for folder in (path.parent, message.path.parent):
            sync_folder(folder)
    return QuarantinedMessage(message.id, message.at, path, in_doubt)


def read_message(message: QuarantinedMessage, max_bytes: int = -1) -> tuple[QuarantineNote, bytes]:
    """Return the note, and the message with CRLF line ends and the verdict that it got. Raises ``InputError``.

    With ``max_bytes`` only so many bytes of the message are read, from its beginning.
    """
    with _open_file(message) as file:
        return _read_note(message, file), normalize_line_ends(file.read(max_bytes))


def draft_for_recipients(
    message: QuarantinedMessage, recipients: tuple[SmtpPath, ...]
) -> tuple[maildir.MaildirDraft, QuarantinedMessage]:
    """Return the same message for these recipients alone, as a file that waits. Raises ``InputError``."""
    note, content = read_message(message)
    note = replace(note, envelope=replace(note.envelope, recipients=recipients))
    folder, name = message.path.parent.parent, message.path.name.partition(":")[0]
    draft = maildir.MaildirDraft(folder, name, _NOTE_FIELD_START + _render_note(note) + b"\n", content)
    return draft, QuarantinedMessage(message.id, message.at, folder / "new" / name, in_doubt=False)


def read_note(message: QuarantinedMessage) -> QuarantineNote:
    """Return the note alone. Raises ``InputError``."""
    with _open_file(message) as file:
        return _read_note(message, file)


def read_subject(message: QuarantinedMessage) -> tuple[QuarantineNote, str]:
    """Return the note and the subject. Only the beginning of the message is read. Raises ``InputError``."""
    note, texts = read_header_texts(message, ("subject",))
    return note, texts["subject"]


def read_header_texts(
    message: QuarantinedMessage, names: Collection[str]
) -> tuple[QuarantineNote, Mapping[str, str]]:
    """Return the note, and the decoded text of the first field with each name (in lower case), empty without one.

    Only the beginning of the message is read. Raises ``InputError``.
    """
    with _open_file(message) as file:
        note, start = (
            _read_note(message, file),
            normalize_line_ends(file.read(_HEADER_SEARCH_BYTES)),
        )
    texts = dict.fromkeys(names, "")
    for field in reversed(list(header_fields.parse_fields(start, header_fields.body_offset(start)))):
        if field.name in texts:
            texts[field.name] = field.text
    return note, texts


@contextmanager
def _open_file(message: QuarantinedMessage) -> Iterator[io.BufferedReader]:
    try:
        with message.path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{message.id}: {error.strerror}") from error


def _render_note(note: QuarantineNote) -> bytes:
    """Return the value of a folded header field.

    JSON has white space between its items, and escapes within them.
    """
    return json.dumps(asdict(note), separators=(",\n\t", ": ")).encode("ascii")


def _read_note(message: QuarantinedMessage, file: io.BufferedReader) -> QuarantineNote:
    head = file.readline(_MAX_NOTE_BYTES)
    lines = [head.removeprefix(_NOTE_FIELD_START)]
    size = len(head)
    while file.peek(1)[:1] == b"\t" and size < _MAX_NOTE_BYTES:
        lines.append(file.readline(_MAX_NOTE_BYTES))
        size += len(lines[-1])
    try:
        note = json.loads(b"".join(lines) if head.startswith(_NOTE_FIELD_START) else b"")
        sender, *recipients = (
            SmtpPath(str(path["address"]), tuple(map(str, path["parameters"])))
            for path in (note["envelope"]["sender"], *note["envelope"]["recipients"])
        )
        return QuarantineNote(
            str(note["id"]),
            str(note["verdict"]),
            float(note["probability"]),
            str(note["policy"]),
            Envelope(sender, tuple(recipients)),
            note["by_list"] is True,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{message.id}: {message.path.name} was not written by nbstream") from None


# The retention of the quarantine: messages that are older than the configured days are removed.

_INTERVAL_SECONDS = 60.0
_MESSAGES_PER_STEP = 1000  # the end of the daemon waits for the thread that removes them


class QuarantineRetention:
    """Removes messages older than ``days`` of the section (None: nothing) and counts the others, once a minute.

    ``on_swept`` is called with how many messages are left, and how many were removed.
    """

    def __init__(
        self, quarantine: Quarantine, section: QuarantineSettings, on_swept: Callable[[int, int], object]
    ) -> None:
        self._quarantine = quarantine
        self._days = section.days
        self._on_swept = on_swept

    async def run(self) -> None:
        """Remove messages until cancelled; log a problem once, and try again as long as it lasts."""
        logged_problem = ""
        while True:
            try:
                result = await self.remove_expired()
                problem = result.problem
            except InputError as error:
                result, problem = None, str(error)
            if problem and problem != logged_problem:
                _log.warning("the quarantine cannot be swept: %s", problem)
            logged_problem = problem
            if result is None or result.removed < _MESSAGES_PER_STEP:
                await asyncio.sleep(_INTERVAL_SECONDS)

    async def remove_expired(self) -> RetentionResult:
        """Remove messages once. Raises ``InputError``."""
        result = await asyncio.to_thread(self._quarantine.remove_expired, self._days, _MESSAGES_PER_STEP)
        self._on_swept(result.remaining, result.removed)
        if result.removed:
            _log.info(
                "quarantine: messages removed for their age",
                extra=event_fields(removed=result.removed, held=result.remaining, days=self._days),
            )
        return result
