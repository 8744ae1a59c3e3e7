"""The quarantine: a Maildir of messages that were accepted, and wait until somebody releases or deletes them.

Rules: the first field of a file is JSON with all that a release needs, the parameters of the envelope included;
the message with its verdict follows. The name of the file has the id of the message and the time, so that no file
is opened to find one. A file in ``new`` waits. A file in ``cur`` was being handed to the next hop when its release
ended without a reply: it may have been delivered, and commands say so. Whoever releases or removes a message has
locked its file (flock). Messages that are older than the configured days are removed. A message for which
there is no room, in all or for one of its users, is not accepted: nothing that waits is given up for what comes.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import logging
import os
import pathlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, TypeAlias

from nbstream.delivery import maildir
from nbstream.delivery.maildir import MaildirRoom
from nbstream.delivery.next_hop import Envelope, SmtpPath, SmtpReply
from nbstream.delivery.settings import QuarantineSettings
from nbstream.durable_files import sync_folder
from nbstream.errors import InputError, NotReleased, RelayUnavailable
from nbstream.logs import event_fields
from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.envelope import MAX_ADDRESS_LENGTH
from nbstream.policy.header import QUARANTINE_FIELD
from nbstream.policy.verdict import Verdict
from nbstream.store.recent.message_rows import normalize_address, read_finite
from nbstream.threads import in_thread_if_large

# What a process knows of the files of the quarantine: for whom each one waits, and how much room it takes.
#
# Rules: the files are the truth. A look reads the names in the folders, and opens only the files that are new:
# what a view of one user costs does not depend on what waits for others. A file that this process is about to
# write counts before it is written. What other processes have written counts with the next look, and twenty times
# as long as a look takes passes between two of them: so several processes together may go over a limit by what
# they take in that time.

_PAUSES = 20  # between two looks, each as long as the last look took
_SETTLED_NANOSECONDS = 1_000_000_000  # after a change, the time of a folder tells of the next one
_RESERVED_SECONDS = 600.0  # for a file that is being written
_USERS_OF_ALL = 8  # who fill the room of all: one user alone cannot

_Key: TypeAlias = tuple[str, str, int]

# There may be a million files. The garbage collector holds the interpreter lock, and visits neither strings nor
# plain tuples of them.

IndexedFile: TypeAlias = tuple[tuple[str, ...], int]
"""The users that a file waits for, each once, and its bytes."""

WaitingFile: TypeAlias = str
"""A file as one word: the second in which it came, the id of its message and its path, with hyphens between them.

The second has 12 digits, the id 24 characters, and the path begins at the quarantine. So sorted words are in the
order in which the files came.
"""


class QuarantineUsage(NamedTuple):
    """The bytes of all files, and of those of the user who has most."""

    total: int = 0
    largest_user: int = 0


class QuarantineIndex:
    """The index of the Maildir at ``path``, for use in threads.

    ``read_file`` opens a file; None where it cannot now, and the next look asks again.
    """

    def __init__(self, path: pathlib.Path, read_file: Callable[[pathlib.Path], IndexedFile | None]) -> None:
        self._path = path
        self._read_file = read_file
        self._lock = threading.Lock()
        self._times: tuple[int, ...] = ()
        self._next_look = 0.0
        self._files: dict[_Key, IndexedFile] = {}
        self._keys: dict[str, set[_Key]] = {}  # by the user
        self._reserved: dict[str, tuple[IndexedFile, float]] = {}
        self._total = 0
        self._bytes: Counter[str] = Counter()  # by the user

    def files_for(self, user: str) -> list[WaitingFile]:
        """Return the files that wait for the user, in no order. Raises ``OSError``."""
        with self._lock:
            self._look_if_changed()
            return list(_waiting_files((folder, name) for folder, name, _ in self._keys.get(user, ())))

    def users(self) -> list[str]:
        """Return the users for whom a file waits. Raises ``OSError``."""
        with self._lock:
            self._look_if_changed()
            return list(self._keys)

    def usage(self) -> QuarantineUsage:
        """Return how much room is taken. Raises ``OSError``."""
        with self._lock:
            self._look_if_changed()
            return QuarantineUsage(self._total, max(self._bytes.values(), default=0))

    def reserve(self, files: dict[str, IndexedFile], max_bytes: int | None) -> bool:
        """Count files, by name, that are about to be written; False, and nothing is, where they have no room.

        ``max_bytes`` is the room of all, None without a limit; one user has an eighth of it, or one message that
        is larger. Raises ``OSError``.
        """
        with self._lock:
            if time.monotonic() >= self._next_look:
                self._look()
            waiting = [user for users, _ in files.values() for user in users if self._bytes[user]]
            for file in files.values():
                self._count(file, 1)
            if max_bytes is not None and (
                self._total > max_bytes or any(self._bytes[user] > max_bytes // _USERS_OF_ALL for user in waiting)
            ):
                for file in files.values():
                    self._count(file, -1)
                return False
            until = time.monotonic() + _RESERVED_SECONDS
            self._reserved.update({name: (file, until) for name, file in files.items()})
            return True

    def forget(self, names: Iterable[str]) -> None:
        """Count files no more that were to be written, and were not."""
        with self._lock:
            for name in names:
                self._end_reservation(name)

    def read_again(self) -> None:
        """Take over what ``read_file`` says now of each file that is known, one after the other."""
        with self._lock:
            keys = list(self._files)
        for key in keys:
            folder, name, _ = key
            file = self._read_file(self._path / folder / name)
            with self._lock:
                if file and key in self._files:
                    self._remove(key)
                    self._add(key, file)

    def _look_if_changed(self) -> None:
        times = tuple(folder.stat().st_mtime_ns if folder.exists() else 0 for folder in self._folders())
        if times != self._times:
            self._look()
            is_settled = time.time_ns() - max(times) > _SETTLED_NANOSECONDS
            self._times = times if is_settled else ()

    def _folders(self) -> Sequence[pathlib.Path]:
        return self._path / "new", self._path / "cur"

    def _look(self) -> None:
        """Take over what is in the folders."""
        started = time.monotonic()
        keys = {(folder.name, name, inode) for folder in self._folders() for name, inode in _names(folder)}
        for key in [key for key in self._files if key not in keys]:
            self._remove(key)
        for key in [key for key in keys if key not in self._files]:
            folder, name, _ = key
            if file := self._read_file(self._path / folder / name):
                self._end_reservation(name)
                self._add(key, file)
        for name, (_, until) in list(self._reserved.items()):
            if until < started:
                self._end_reservation(name)
        ended = time.monotonic()
        self._next_look = ended + _PAUSES * (ended - started)

    def _add(self, key: _Key, file: IndexedFile) -> None:
        self._files[key] = file
        self._count(file, 1)
        for user in file[0]:
            self._keys.setdefault(user, set()).add(key)

    def _remove(self, key: _Key) -> None:
        file = self._files.pop(key)
        self._count(file, -1)
        for user in file[0]:
            self._keys[user].remove(key)
            if not self._keys[user]:
                del self._keys[user]

    def _end_reservation(self, name: str) -> None:
        reserved = self._reserved.pop(name, None)
        if reserved:
            self._count(reserved[0], -1)

    def _count(self, file: IndexedFile, sign: int) -> None:
        """Add what a file takes, or with a ``sign`` of -1 subtract it."""
        users, file_bytes = file
        for user in users:
            self._bytes[user] += sign * file_bytes
            if not self._bytes[user]:
                del self._bytes[user]
        self._total += sign * file_bytes


def _names(folder: pathlib.Path) -> list[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            return [(entry.name, entry.inode()) for entry in entries]
    except FileNotFoundError:
        return []


_FILE_NAME = re.compile(r"(?P<at>[0-9]{1,12})\.[^:]*,I=(?P<id>[a-z2-7]{24})(?::2,P)?")


def message_id_of(file: WaitingFile) -> str:
    """Return the id of the message in the file."""
    return file[13:37]


def cursor_of(file: WaitingFile) -> str:
    """Return where the file is in a list: the second in which it came, and the id of its message."""
    return file[:37]


def _came_at(file: WaitingFile) -> float:
    return float(file[:12])


def _waiting_files(places: Iterable[tuple[str, str]]) -> Iterator[WaitingFile]:
    """Yield the files with these folders and names, but for those of other programs."""
    for folder, name in places:
        if match := _FILE_NAME.fullmatch(name):
            yield f"{match['at']:0>12}-{match['id']}-{folder}/{name}"


_NOTE_FIELD_START = f"{QUARANTINE_FIELD}: ".encode("ascii")
_MAX_NOTE_BYTES = 64 << 20
_HEADER_SEARCH_BYTES = 16 * 1024  # of a message, for its subject and the like
_DAY_SECONDS = 86_400
_MESSAGES_PER_STEP = 1000  # the end of the daemon waits for the thread that removes them
_BLOCK_BYTES = 4096  # what a small file takes on most disks: so the room bounds the number of files, too

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


class QuarantineFile(NamedTuple):
    """One file of the quarantine.

    ``at`` is when the message came, in seconds since 1970. ``in_doubt``: it may have been delivered already.
    """

    id: str
    at: float
    path: pathlib.Path
    in_doubt: bool


QuarantinePart: TypeAlias = tuple[QuarantineNote, bytes, bytes]
"""What becomes one file: its note, the fields with LF line ends that go on top of the message, and the message."""


class Quarantine:
    """The quarantine at ``path``, which is made when it is first needed.

    ``user_of`` returns the user whose room a message to an address takes. ``on_full`` is called where there is no
    room for a message, in all or for a user.
    """

    def __init__(
        self,
        path: pathlib.Path,
        section: QuarantineSettings | None = None,
        user_of: Callable[[str], str] = normalize_address,
        on_full: Callable[[], object] = lambda: None,
    ) -> None:
        self._path = path
        self._section = section or QuarantineSettings()
        self._user_of = user_of
        self._on_full = on_full
        self._room = MaildirRoom(path)
        self._index = QuarantineIndex(path, self._read_indexed)
        self._one_look_up = asyncio.Lock()
        # One of its own: the first look at a full quarantine takes long, and other work must have its threads.
        self._accounting = ThreadPoolExecutor(1, thread_name_prefix="quarantine")

    async def look_up_users_again(self) -> None:
        """Open all files, to go by what ``user_of`` says now; other work goes on meanwhile."""
        async with self._one_look_up:
            await asyncio.to_thread(self._index.read_again)

    async def problem(self) -> str | None:
        """Return why no message could be added now, or None."""
        return await self._room.problem()

    async def write(
        self, parts: Sequence[QuarantinePart], others: Sequence[maildir.MaildirDraft] = ()
    ) -> SmtpReply | None:
        """Write a file for each part, and ``others``: all or none. Return None, or a 452 where there is no room.

        Raises ``RelayUnavailable``.
        """
        size = max((len(content) for _, _, content in parts), default=0)
        drafts = await in_thread_if_large(size, self.make_drafts, parts)
        reserved = {
            draft.name: self._indexed(note, len(draft.head) + len(draft.content))
            for (note, _, _), draft in zip(parts, drafts, strict=True)
        }
        failure: SmtpReply | None = maildir.DISK_FULL_REPLY
        try:
            if parts and not await self._reserve(reserved):
                self._on_full()
                return failure
            failure = await maildir.write_drafts([*drafts, *others])
        finally:
            if failure:  # after the reservation, which goes on in its thread where this is cancelled
                await asyncio.wrap_future(self._accounting.submit(self._index.forget, reserved))
        return failure

    async def _reserve(self, files: dict[str, IndexedFile]) -> bool:
        """Return whether there is room for files, by their names, which is reserved then."""
        loop, limit = asyncio.get_running_loop(), self._section.max_bytes
        try:
            return await loop.run_in_executor(self._accounting, self._index.reserve, files, limit)
        except OSError as error:
            raise RelayUnavailable(f"cannot read the quarantine: {error}") from error

    def make_drafts(self, parts: Sequence[QuarantinePart]) -> list[maildir.MaildirDraft]:
        """Return the files of these parts."""
        return [
            maildir.MaildirDraft(
                self._path,
                f"{maildir.unique_name()},I={note.id}",
                _NOTE_FIELD_START + _render_note(note) + b"\n" + fields,
                content,
            )
            for note, fields, content in parts
        ]

    def usage(self) -> QuarantineUsage:
        """Return how much room is taken; it opens the files that it does not know. Raises ``InputError``."""
        try:
            return self._index.usage()
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}") from error

    def users(self) -> list[str]:
        """Return the users for whom a message waits, but for addresses that were cut. Raises ``InputError``."""
        try:
            return [user for user in self._index.users() if len(user) < MAX_ADDRESS_LENGTH]
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}") from error

    def files_for(self, user: str) -> list[WaitingFile]:
        """Return the files that wait for the user, in no order. Raises ``InputError``."""
        try:
            return self._index.files_for(user)
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}") from error

    def _read_indexed(self, path: pathlib.Path) -> IndexedFile | None:
        file = next(_waiting_files([(path.parent.name, path.name)]), None)
        try:
            return self._indexed(read_note(self.message_at(file)), path.stat().st_size) if file else None
        except (OSError, InputError):
            return None  # released just now, or damaged

    def _indexed(self, note: QuarantineNote, size: int) -> IndexedFile:
        users = tuple({self._user_of(path.address) for path in note.envelope.recipients})
        return users, -(-size // _BLOCK_BYTES) * _BLOCK_BYTES

    def messages(self, prefix: str = "") -> list[QuarantineFile]:
        """Return the messages whose id begins with ``prefix``, the oldest first. No file is opened.

        Raises ``InputError``.
        """
        return list(map(self.message_at, sorted(self.files(prefix))))

    def files(self, prefix: str = "") -> list[WaitingFile]:
        """Return the files of the messages whose id begins with ``prefix``, in no order. Raises ``InputError``."""
        files: list[WaitingFile] = []
        for folder in ("new", "cur"):
            try:
                names = _names(self._path / folder)
            except OSError as error:
                raise InputError(f"{self._path / folder}: {error.strerror}") from error
            found = _waiting_files((folder, name) for name, _ in names if f",I={prefix}" in name)
            files += [file for file in found if message_id_of(file).startswith(prefix)]
        return files

    def message_at(self, file: WaitingFile) -> QuarantineFile:
        """Return the message in the file."""
        path = self._path / file[38:]
        return QuarantineFile(message_id_of(file), _came_at(file), path, path.parent.name == "cur")

    async def sweep(self, on_swept: Callable[[int, int, QuarantineUsage], object]) -> None:
        """Remove all messages that are old enough.

        ``on_swept`` is called with how many messages are left, how many were removed, and the room that is taken.
        Raises ``InputError`` where one of them cannot be removed.
        """
        problem, removed = "", _MESSAGES_PER_STEP
        while removed == _MESSAGES_PER_STEP:
            remaining, removed, problem = await asyncio.to_thread(self._remove_expired)
            on_swept(remaining, removed, await asyncio.to_thread(self.usage))
            if removed:
                fields = event_fields(removed=removed, remaining=remaining, days=self._section.days)
                _log.info("quarantine: expired messages removed", extra=fields)
        if problem:
            raise InputError(problem)

    def _remove_expired(self) -> tuple[int, int, str]:
        """Remove some of the messages that are older than the days of the section; None removes nothing.

        Return how many messages are left, how many were removed, and why the first of what stays could not be.
        Raises ``InputError``.
        """
        days = self._section.days
        problem = maildir.remove_unfinished(self._path)
        files = self.files()
        until = time.time() - days * _DAY_SECONDS if days is not None else 0.0
        removed = 0
        for message in map(self.message_at, (file for file in files if _came_at(file) < until)):
            if removed == _MESSAGES_PER_STEP:
                break
            try:
                with locked(message):
                    message.path.unlink()  # should it come back after a power loss, it is removed again
                removed += 1
            except NotReleased:
                continue  # it is being released
            except (InputError, OSError) as error:
                problem = problem or str(error)  # the messages after it are removed all the same
        return len(files) - removed, removed, problem


@contextmanager
def locked(message: QuarantineFile) -> Iterator[None]:
    """Keep others from releasing or removing the message.

    Raises ``NotReleased`` where somebody else does that already, or has done it. Raises ``InputError``.
    """
    already_removed = NotReleased("just released or removed by someone else")
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
            raise NotReleased("is being released by someone else") from None
        try:
            is_there = os.path.samestat(os.fstat(descriptor), message.path.stat())
        except FileNotFoundError:
            is_there = False
        if not is_there:  # the file that waits on for other recipients may have the same name
            raise already_removed
        yield
    finally:
        os.close(descriptor)


def mark_in_doubt(message: QuarantineFile) -> QuarantineFile:
    """Mark the message, durably, as being handed over, so that nobody delivers it again unknowingly.

    Raises ``NotReleased``.
    """
    return _move(
        message, message.path.parent.parent / "cur" / f"{message.path.name.partition(':')[0]}:2,P", in_doubt=True
    )


def mark_waiting(message: QuarantineFile) -> QuarantineFile:
    """Mark the message, durably, as not taken by the next hop. Raises ``NotReleased``."""
    return _move(message, message.path.parent.parent / "new" / message.path.name.partition(":")[0], in_doubt=False)


def remove(message: QuarantineFile) -> None:
    """Remove the file of the message, durably; whoever does has locked it. Raises ``NotReleased``."""
    with _changing():
        message.path.unlink()
        sync_folder(message.path.parent)


def _move(message: QuarantineFile, path: pathlib.Path, *, in_doubt: bool) -> QuarantineFile:
    if path != message.path:
        with _changing():
            message.path.rename(path)
            for folder in (path.parent, message.path.parent):
                sync_folder(folder)
    return QuarantineFile(message.id, message.at, path, in_doubt)


@contextmanager
def _changing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotReleased(f"its file cannot be changed: {error}") from error


def read_message(message: QuarantineFile, max_bytes: int = -1) -> tuple[QuarantineNote, bytes]:
    """Return the note, and the message with CRLF line ends and the verdict that it got. Raises ``InputError``.

    With ``max_bytes`` only so many bytes of the message are read, from its beginning.
    """
    with _open_file(message) as file:
        return _read_note(message, file), normalize_line_ends(file.read(max_bytes))


def draft_for_recipients(
    message: QuarantineFile, recipients: tuple[SmtpPath, ...]
) -> tuple[maildir.MaildirDraft, QuarantineFile]:
    """Return the same message for these recipients alone, as a file that waits. Raises ``InputError``."""
    with _open_file(message) as file:
        note, content = _read_note(message, file), normalize_line_ends(file.read())
    note = replace(note, envelope=replace(note.envelope, recipients=recipients))
    folder, name = message.path.parent.parent, message.path.name.partition(":")[0]
    draft = maildir.MaildirDraft(folder, name, _NOTE_FIELD_START + _render_note(note) + b"\n", content)
    return draft, QuarantineFile(message.id, message.at, folder / "new" / name, in_doubt=False)


def read_note(message: QuarantineFile) -> QuarantineNote:
    """Return the note alone. Raises ``InputError``."""
    with _open_file(message) as file:
        return _read_note(message, file)


def read_header_texts(message: QuarantineFile, names: Collection[str]) -> tuple[QuarantineNote, Mapping[str, str]]:
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
def _open_file(message: QuarantineFile) -> Iterator[io.BufferedReader]:
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


def _read_note(message: QuarantineFile, file: io.BufferedReader) -> QuarantineNote:
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
            str(Verdict(note["verdict"])),
            read_finite(note["probability"]),
            str(note["policy"]),
            Envelope(sender, tuple(recipients)),
            note["by_list"] is True,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{message.id}: {message.path.name} was not written by nbstream") from None
