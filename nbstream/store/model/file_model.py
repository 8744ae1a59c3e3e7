"""A model in one file: what a ``Model`` does for the filter, with SQLite in place of Redis.

Rules: the same lessons give the same counts as in Redis, to the last digit. A lesson is one transaction, and it is
on the disk when ``commit_lesson`` returns. Several processes may use one file: each look-up sees all lessons that
are committed, and writers wait for each other. A file has no false-positive budgets. It belongs
on a local disk, because SQLite relies on its locks (https://sqlite.org/wal.html). A file that is made here is
readable by its owner alone, because it has words of private mail.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.policy.prequential_scores import PrequentialScores
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.memory_model import apply_lesson
from nbstream.store.model.signature import current_signature, difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.scripts import LessonBatch

_APPLICATION_ID = int.from_bytes(b"nbst")
_LOCK_SECONDS = 10.0  # others hold the lock for one lesson: some milliseconds
_LEDGER_FIELDS = (
    "version", "label", "weight", "tokens", "sums", "learned_at", "source", "actor", "score", "first", "change",
)  # fmt: skip
_NAMES_AT_A_TIME = 10_000  # of 32,766 variables that a statement may have

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE signature (field TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counts (name BLOB PRIMARY KEY, ham INTEGER NOT NULL, spam INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (
    ham_messages INTEGER NOT NULL, spam_messages INTEGER NOT NULL,
    ham_tokens INTEGER NOT NULL, spam_tokens INTEGER NOT NULL,
    vocabulary INTEGER NOT NULL, changes INTEGER NOT NULL
);
INSERT INTO totals VALUES (0, 0, 0, 0, 0, 0);
CREATE TABLE ledger (
    message_key TEXT PRIMARY KEY, version BLOB, label BLOB, weight BLOB, tokens BLOB, sums BLOB, learned_at BLOB,
    source BLOB, actor BLOB, score BLOB, first BLOB, change BLOB
);
"""


class FileModel:
    """Counts and their ledger in the file ``path``, which is made where there is none.

    It belongs to the thread that made it. Raises ``StoreIncompatible`` for a file of another program or of another
    version, and ``StoreUnavailable`` where it cannot be opened; the methods raise ``StoreUnavailable`` too, and
    have changed nothing then.
    """

    native_table = None

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
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        stored = dict(self._database.execute("SELECT field, value FROM signature"))
        if found := difference(stored, self._signature):
            raise StoreIncompatible(
                f"{self._path} has {found}: use the nbstream and the key that wrote it, or a new file"
            )

    def _make_tables(self) -> None:
        """Make the tables, all in one transaction, unless another process does it at the same moment."""
        try:
            self._database.executescript(_SCHEMA)
            self._database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self._database.executemany("INSERT INTO signature VALUES (?, ?)", self._signature.items())
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
        """The counts of ``tokens``, shape (n, classes), and the totals after the same lesson."""
        with self._transaction("DEFERRED"):
            return self._rows(tokens), self._totals()[0]

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """The counts of these sums, shape (n, classes): the very same array until one of them changes."""
        with self._store_errors():
            rows = self._rows(names)
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

    async def commit_lessons(self, batch: LessonBatch, layer: object = None) -> list[bytes | LedgerConflict]:
        """Commit the lessons of a batch, all in one transaction; a model in a file has no ``layer``."""
        assert layer is None
        with self._transaction("IMMEDIATE"):
            return [self._replace(lesson.message_key, lesson.old, lesson.new) for lesson in batch.lessons]

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Replace ``old`` by ``new``; return the id of the change, or what the ledger holds instead of ``old``."""
        with self._transaction("IMMEDIATE"):
            return self._replace(message_key, old, new)

    def _replace(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None
    ) -> bytes | LedgerConflict:
        present = self._entry(message_key)
        if (present.version if present else None) != (old.version if old else None):
            return LedgerConflict(present)
        totals, changes = self._totals()
        names = list({name: None for entry in (old, new) if entry for name in (*entry.tokens, *dict(entry.sums))})
        counts = ClassCounts()
        counts.set_counts(names, self._rows(names))
        counts.set_totals(totals)
        apply_lesson(counts, old, new)
        self._write_rows(names, counts.look_up(names))
        self._write_totals(counts.totals, changes + 1)
        self._write_entry(message_key, new, change := _change_id(changes + 1))
        return change

    def _rows(self, names: Sequence[bytes]) -> NDArray[np.int64]:
        found: dict[bytes, tuple[int, int]] = {}
        for start in range(0, len(names), _NAMES_AT_A_TIME):
            some = names[start : start + _NAMES_AT_A_TIME]
            marks = ",".join("?" * len(some))
            query = f"SELECT name, ham, spam FROM counts WHERE name IN ({marks})"  # noqa: S608 - question marks
            found |= {name: (ham, spam) for name, ham, spam in self._database.execute(query, some)}
        rows = [found.get(name, (0, 0)) for name in names]
        return np.array(rows, np.int64).reshape(len(names), len(CLASSES))

    def _write_rows(self, names: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        named_rows = list(zip(names, rows.tolist(), strict=True))
        self._database.executemany(
            "INSERT OR REPLACE INTO counts VALUES (?, ?, ?)",
            [(name, ham, spam) for name, (ham, spam) in named_rows if ham or spam],
        )
        self._database.executemany(
            "DELETE FROM counts WHERE name = ?", [(name,) for name, (ham, spam) in named_rows if not (ham or spam)]
        )

    def _totals(self) -> tuple[Totals, int]:
        """Return the totals, and the number of changes."""
        *values, vocabulary, changes = self._database.execute("SELECT * FROM totals").fetchone()
        return Totals((values[0], values[1]), (values[2], values[3]), vocabulary), changes

    def _write_totals(self, totals: Totals, changes: int) -> None:
        self._database.execute("DELETE FROM totals")
        values = (*totals.messages, *totals.token_weights, totals.vocabulary_size, changes)
        self._database.execute("INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?)", values)

    def _entry(self, message_key: str) -> LedgerEntry | None:
        fields = ", ".join(_LEDGER_FIELDS)
        query = f"SELECT {fields} FROM ledger WHERE message_key = ?"  # noqa: S608 - names of this module
        row = self._database.execute(query, (message_key,)).fetchone()
        if row is None:
            return None
        values = (value if isinstance(value, bytes) else str(value).encode() for value in row)
        return LedgerEntry.unpack(dict(zip(map(str.encode, _LEDGER_FIELDS), values, strict=True)))

    def _write_entry(self, message_key: str, entry: LedgerEntry | None, change: bytes) -> None:
        self._database.execute("DELETE FROM ledger WHERE message_key = ?", (message_key,))
        if entry:
            fields = {**entry.pack(), "change": change}
            marks = ", ".join("?" * (1 + len(_LEDGER_FIELDS)))
            statement = f"INSERT INTO ledger VALUES ({marks})"  # noqa: S608 - question marks
            self._database.execute(statement, (message_key, *(fields[name] for name in _LEDGER_FIELDS)))

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
        except (sqlite3.OperationalError, OSError) as error:  # locked, full, read-only, no such folder
            raise StoreUnavailable(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreIncompatible(f"{self._path} is damaged, or no model: {error}") from error


def _change_id(changes: int) -> bytes:
    """Return the id of a change, which looks like that of a stream of Redis."""
    return b"0-%d" % changes if changes else b""
