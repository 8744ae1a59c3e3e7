"""A model in one file: what a ``Model`` does for the filter, with SQLite in place of Redis.

Rules: the same lessons give the same counts as in Redis, to the last digit. A batch of lessons is one transaction,
which is on the disk when ``commit_lessons`` returns. Several processes may use one file: each look-up sees all
lessons that are committed, and writers wait for each other. A file has no false-positive budgets. It belongs on a
local disk, because SQLite relies on its locks (https://sqlite.org/wal.html). A file that is made here is readable
by its owner alone, because it has words of private mail. A file without a single byte is taken for a new one.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.columns import automatic_columns
from nbstream.bayes.counts import ClassCounts, Totals, rows_by_label
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.policy.thresholds import PrequentialScores
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.memory_model import apply_lesson
from nbstream.store.model.signature import current_signature, difference
from nbstream.store.state_file import PASSING_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.scripts import LessonBatch

_APPLICATION_ID = int.from_bytes(b"nbst")
_LOCK_SECONDS = 10.0  # others hold the lock for one lesson: some milliseconds
_NAMES_AT_A_TIME = 10_000  # of 32,766 variables that a statement may have

_SCHEMA = """
CREATE TABLE signature (field TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counts (
    name BLOB, class TEXT, count INTEGER NOT NULL, PRIMARY KEY (name, class)
) WITHOUT ROWID;
CREATE TABLE totals (content TEXT NOT NULL, changes INTEGER NOT NULL);
CREATE TABLE ledger (message_key TEXT, field TEXT, value BLOB, PRIMARY KEY (message_key, field)) WITHOUT ROWID;
"""


class FileModel:
    """Counts and their ledger in the file ``path``, which is made where there is none.

    It belongs to the thread that made it. Raises ``StoreIncompatible`` for a file that is damaged, or of another
    program or version, and ``StoreUnavailable`` where it cannot be opened; the methods raise both too, and have
    changed nothing then.
    """

    in_memory = None

    def __init__(self, path: Path, key_fingerprint: str = "") -> None:
        self._path = path
        self._signature = current_signature(key_fingerprint)
        self._sums: dict[tuple[bytes, ...], NDArray[np.int64]] = {}
        with self._store_errors():
            path.touch(0o600)
            # Absolute: SQLite takes :memory: for no file, and may take file: for a URI.
            self._database = sqlite3.connect(path.absolute(), timeout=_LOCK_SECONDS, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._database.close()
                raise

    def _prepare(self) -> None:
        """Make the tables of a new file, or check that this version can use what is there."""
        application_id, pages = self._pragma("application_id"), self._pragma("page_count")
        if pages and application_id != _APPLICATION_ID:
            raise StoreIncompatible(f"{self._path} is a database of another program")
        if not pages:
            self._make_tables()
        stored = dict(self._database.execute("SELECT field, value FROM signature"))
        if found := difference(stored, self._signature):
            raise StoreIncompatible(
                f"{self._path} has {found}: use the nbstream and the key that wrote it, or a new file"
            )
        (found,) = self._database.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")

    def _damaged(self, reason: object) -> StoreIncompatible:
        return StoreIncompatible(f"{self._path} is damaged, or no model: {reason}; put back a copy of it")

    def _make_tables(self) -> None:
        """Make the tables, all in one transaction, unless another process does it at the same moment."""
        try:
            self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
            self._database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self._database.executemany("INSERT INTO signature VALUES (?, ?)", self._signature.items())
            self._write_totals(Totals(), 0)
            self._database.execute("COMMIT")
        except sqlite3.OperationalError:
            self._database.rollback()
            if self._pragma("application_id") != _APPLICATION_ID:
                raise

    def _pragma(self, name: str) -> int:
        value: int = self._database.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def close(self) -> None:
        """Close the file; what was acknowledged is in it."""
        self._database.close()

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` by label, shape (n, classes), and the totals after the same lesson."""
        counts, totals = await self.look_up_columns(tokens)
        return rows_by_label(counts), totals.by_label

    async def look_up_columns(
        self, tokens: Sequence[bytes], *, automatic: bool = False
    ) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` in each of the columns of the totals; a file is taught by people alone."""
        if automatic:
            return np.zeros((len(tokens), 2), np.int64), Totals(columns=automatic_columns(0))
        with self._transaction("DEFERRED"):
            totals = self._totals()[0]
            return self._rows(tokens, totals.columns), totals

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """The counts of these sums by label, shape (n, classes): the very same array until one of them changes."""
        rows, _ = await self.look_up(names)
        known = self._sums.get(names)
        if known is None or not np.array_equal(known, rows):
            known = self._sums[names] = rows
        return known

    async def prequential_scores(self) -> PrequentialScores:
        """No prequential scores: they are what budgets need."""
        return PrequentialScores()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: every look-up sees every change."""

    async def last_change(self) -> bytes:
        """The id of the last change; empty before the first."""
        with self._store_errors():
            return _change_id(self._totals()[1])

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """What the message was learned as, or None."""
        with self._store_errors():
            return self._entry(message_key)

    async def entries(self, message_keys: Sequence[str]) -> list[LedgerEntry | None]:
        """What each of these messages was learned as, or None."""
        return [await self.entry(message_key) for message_key in message_keys]

    async def confirm(self) -> None:
        """Return at once: what is committed is on the disk."""

    async def commit_lessons(self, batch: LessonBatch) -> list[bytes | LedgerConflict]:
        """Commit the lessons of a batch, all in one transaction."""
        with self._transaction("IMMEDIATE"):
            return self._replace([(lesson.message_key, lesson.old, lesson.new) for lesson in batch.lessons])

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Replace ``old`` by ``new``; return the id of the change, or what the ledger holds instead of ``old``."""
        with self._transaction("IMMEDIATE"):
            return self._replace([(message_key, old, new)])[0]

    def _replace(
        self, lessons: Sequence[tuple[str, LedgerEntry | None, LedgerEntry | None]]
    ) -> list[bytes | LedgerConflict]:
        """Replace the old entry of each of these messages by the new one; the counts are read and written once."""
        answers: dict[str, bytes | LedgerConflict] = {}
        for message_key, old, _ in lessons:
            present = self._entry(message_key)
            if (present.version if present else None) != (old.version if old else None):
                answers[message_key] = LedgerConflict(present)
        changed = [lesson for lesson in lessons if lesson[0] not in answers]
        if not changed:
            return [answers[message_key] for message_key, _, _ in lessons]
        totals, changes = self._totals()
        entries = [entry for _, *both in changed for entry in both if entry]
        names = list({name: None for entry in entries for name in (*entry.tokens, *dict(entry.sums))})
        columns = tuple(dict.fromkeys([*totals.columns, *[entry.column for entry in entries]]))
        counts, rows = ClassCounts(columns), self._rows(names, columns)
        counts.set_counts(names, rows)
        counts.set_totals(totals)
        for number, (message_key, old, new) in enumerate(changed, start=changes + 1):
            apply_lesson(counts, old, new)
            answers[message_key] = _change_id(number)
            self._write_entry(message_key, new, _change_id(number))
        self._write_rows(names, columns, rows, counts.look_up_columns(names))
        self._write_totals(counts.column_totals, changes + len(changed))
        return [answers[message_key] for message_key, _, _ in lessons]

    def _rows(self, names: Sequence[bytes], columns: Sequence[str]) -> NDArray[np.int64]:
        places = {column: place for place, column in enumerate(columns)}
        numbers = {name: number for number, name in enumerate(names)}
        rows = np.zeros((len(names), len(columns)), np.int64)
        for start in range(0, len(names), _NAMES_AT_A_TIME):
            some = names[start : start + _NAMES_AT_A_TIME]
            marks = ",".join("?" * len(some))
            query = f"SELECT name, class, count FROM counts WHERE name IN ({marks})"  # noqa: S608 - question marks
            try:
                for name, column, count in self._database.execute(query, some):
                    rows[numbers[name], places[column]] = count
            except (KeyError, OverflowError, TypeError, ValueError) as error:
                raise self._damaged(error) from error
        return rows

    def _write_rows(
        self, names: Sequence[bytes], columns: Sequence[str], old: NDArray[np.int64], new: NDArray[np.int64]
    ) -> None:
        """Replace the ``old`` counts of these names by ``new`` ones; a count of 0 has no row."""
        places, counts = np.argwhere(new != old).tolist(), new[new != old].tolist()
        changed = [(names[row], columns[place], count) for (row, place), count in zip(places, counts, strict=True)]
        present = [row for row in changed if row[2]]
        self._database.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", present)
        gone = [row[:2] for row in changed if not row[2]]
        self._database.executemany("DELETE FROM counts WHERE name = ? AND class = ?", gone)

    def _totals(self) -> tuple[Totals, int]:
        """Return the totals, and the number of changes."""
        try:
            content, changes = self._database.execute("SELECT * FROM totals").fetchone()
            messages, weights, vocabulary, columns = json.loads(content).values()
            return Totals(tuple(messages), tuple(weights), vocabulary, tuple(columns)), changes
        except (AttributeError, TypeError, ValueError) as error:
            raise self._damaged("its totals are no numbers") from error

    def _write_totals(self, totals: Totals, changes: int) -> None:
        self._database.execute("DELETE FROM totals")
        self._database.execute("INSERT INTO totals VALUES (?, ?)", (json.dumps(asdict(totals)), changes))

    def _entry(self, message_key: str) -> LedgerEntry | None:
        query = "SELECT CAST(field AS BLOB), CAST(value AS BLOB) FROM ledger WHERE message_key = ?"
        return LedgerEntry.unpack(dict(self._database.execute(query, (message_key,))))

    def _write_entry(self, message_key: str, entry: LedgerEntry | None, change: bytes) -> None:
        self._database.execute("DELETE FROM ledger WHERE message_key = ?", (message_key,))
        fields = {**entry.pack(), "change": change} if entry else {}
        rows = [(message_key, name, value) for name, value in fields.items()]
        self._database.executemany("INSERT INTO ledger VALUES (?, ?, ?)", rows)

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        with self._store_errors():
            self._database.execute(f"BEGIN {kind}")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                self._database.rollback()
                raise

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # no such folder
            raise StoreUnavailable(f"{self._path}: {error}") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the text of an error may have damaged bytes
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            # SQLite writes no file whose header has an unknown version of its format.
            has_unknown_version = code == sqlite3.SQLITE_READONLY and os.access(self._path, os.W_OK)
            if code & 0xFF not in PASSING_ERRORS or has_unknown_version:
                raise self._damaged(error) from error
            raise StoreUnavailable(f"{self._path}: {error}") from error


def _change_id(changes: int) -> bytes:
    """Return the id of a change, which looks like that of a stream of Redis."""
    return b"0-%d" % changes if changes else b""
