"""The quarantine: a Maildir of messages that were taken from their sender, and wait for somebody's word.

Rules: a file's first field is JSON with all that a release needs, envelope parameters included; the message with
its verdict comes after it. The id of the message and the time are in the file's name, so that nothing is opened to
find one. A file in ``new`` waits. One in ``cur`` was being handed to the next hop when its release ended without
an answer: it may have been delivered, and that is told. Whoever releases or removes it holds its lock (flock).
"""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeAlias

from nbstream.errors import InputError, NotReleased
from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.verdict_fields import QUARANTINE_FIELD
from nbstream.relay import maildir_files
from nbstream.relay.next_hop import Envelope, SmtpPath

_FILE_NAME = re.compile(r"(?P<at>[0-9]{1,12})\.[^:]*,I=(?P<id>[a-z2-7]{24})(?::2,P)?")
_NOTE_FIELD_START = f"{QUARANTINE_FIELD}: ".encode("ascii")
_MAX_NOTE_BYTES = 64 << 20
_SUBJECT_SEARCH_BYTES = 16 * 1024  # of a message, for its subject
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class QuarantineNote:
    """What is kept of a message beside itself; ``policy`` is whose decided, empty where all have the same."""

    id: str
    verdict: str
    probability: float
    policy: str
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """One file of the quarantine; ``in_doubt``: it may have been delivered already. ``at`` is in seconds."""

    id: str
    at: float
    path: pathlib.Path
    in_doubt: bool


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """How many messages are left, how many were removed, and what was the first one's matter that could not be."""

    remaining: int
    removed: int
    problem: str = ""


QuarantineTransition: TypeAlias = Callable[[QuarantinedMessage], QuarantinedMessage]


class Quarantine:
    """The quarantine at ``path``, made when it is first needed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def make_draft(self, note: QuarantineNote, fields: bytes, content: bytes) -> maildir_files.MaildirDraft:
        """The file of a message, to be written; ``fields`` with LF line ends go on top of it."""
        name = f"{maildir_files.unique_name()},I={note.id}"
        return maildir_files.MaildirDraft(
            self._path, name, _NOTE_FIELD_START + _render_note(note) + b"\n" + fields, content
        )

    def messages(self, prefix: str = "") -> list[QuarantinedMessage]:
        """What is there, of messages whose id begins so, oldest first; no file is opened. Raises InputError."""
        found = []
        for folder in ("new", "cur"):
            try:
                with os.scandir(self._path / folder) as entries:
                    for entry in entries:
                        name = _FILE_NAME.fullmatch(entry.name)
                        if name and name["id"].startswith(prefix):
                            path = pathlib.Path(entry.path)
                            found.append(QuarantinedMessage(name["id"], float(name["at"]), path, folder == "cur"))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InputError(f"{self._path / folder}: {error.strerror}") from error
        return sorted(found, key=lambda each: (each.at, each.path.name))

    def remove_expired(self, days: int | None, most: int = 1000) -> RetentionResult:
        """Remove at most so many messages that are older than ``days``. Raises InputError."""
        held = self.messages()
        until = time.time() - days * _DAY_SECONDS if days is not None else 0.0
        removed, problem = 0, ""
        for each in itertools.takewhile(lambda each: each.at < until, held):
            if removed == most:
                break
            try:
                with locked(each):
                    each.path.unlink()
                removed += 1
            except NotReleased:
                continue  # it is being released
            except (InputError, OSError) as error:
                problem = problem or str(error)  # and what comes after it goes all the same
        return RetentionResult(len(held) - removed, removed, problem)


@contextmanager
def locked(held: QuarantinedMessage) -> Iterator[None]:
    """Keep others from releasing or removing it; NotReleased where they do already, or have done."""
    gone = NotReleased("released or removed by somebody else just now")
    try:
        descriptor = os.open(held.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise gone from None
    except OSError as error:
        raise InputError(f"{held.path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotReleased("is being released by somebody else") from None
        if not held.path.exists():
            raise gone
        yield
    finally:
        os.close(descriptor)


def mark_in_doubt(held: QuarantinedMessage) -> QuarantinedMessage:
    """Say, durably, that it is being handed over: whatever happens now, nobody does so again unknowingly."""
    return _move(held, held.path.parent.parent / "cur" / f"{held.path.name.partition(':')[0]}:2,P", in_doubt=True)


def mark_waiting(held: QuarantinedMessage) -> QuarantinedMessage:
    """Say, durably, that it was not taken."""
    return _move(held, held.path.parent.parent / "new" / held.path.name.partition(":")[0], in_doubt=False)


def _move(held: QuarantinedMessage, path: pathlib.Path, *, in_doubt: bool) -> QuarantinedMessage:
    if path != held.path:
        held.path.rename(path)
        for folder in (path.parent, held.path.parent):
            maildir_files.sync_folder(folder)
    return QuarantinedMessage(held.id, held.at, path, in_doubt)


def read_message(held: QuarantinedMessage) -> tuple[QuarantineNote, bytes]:
    """The note, and the message with CRLF line ends and the verdict that it got. Raises InputError."""
    with _open_file(held) as file:
        return _read_note(held, file), normalize_line_ends(file.read())


def read_subject(held: QuarantinedMessage) -> tuple[QuarantineNote, str]:
    """The note and the subject; no more than the beginning of the message is read. Raises InputError."""
    with _open_file(held) as file:
        note, start = _read_note(held, file), normalize_line_ends(file.read(_SUBJECT_SEARCH_BYTES))
    fields = header_fields.parse_fields(start, header_fields.body_offset(start))
    return note, next((each.text for each in fields if each.name == "subject"), "")


@contextmanager
def _open_file(held: QuarantinedMessage) -> Iterator[io.BufferedReader]:
    try:
        with held.path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{held.id}: {error.strerror}") from error


def _render_note(note: QuarantineNote) -> bytes:
    """One folded header field of ASCII: JSON may have white space between its items, and escapes all within."""
    return json.dumps(asdict(note), separators=(",\n\t", ": ")).encode("ascii")


def _read_note(held: QuarantinedMessage, file: io.BufferedReader) -> QuarantineNote:
    head = file.readline(_MAX_NOTE_BYTES)
    lines = [head.removeprefix(_NOTE_FIELD_START)]
    size = len(head)
    while file.peek(1)[:1] == b"\t" and size < _MAX_NOTE_BYTES:
        lines.append(file.readline(_MAX_NOTE_BYTES))
        size += len(lines[-1])
    try:
        found = json.loads(b"".join(lines) if head.startswith(_NOTE_FIELD_START) else b"")
        envelope = found["envelope"]
        sender, *recipients = (
            SmtpPath(str(each["address"]), tuple(map(str, each["parameters"])))
            for each in (envelope["sender"], *envelope["recipients"])
        )
        to = Envelope(sender, tuple(recipients))
        return QuarantineNote(
            str(found["id"]), str(found["verdict"]), float(found["probability"]), str(found["policy"]), to
        )
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{held.id}: {held.path.name} was not written by nbstream") from None
