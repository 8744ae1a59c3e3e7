"""A model in one file: what a ``Model`` does for the filter, with SQLite in place of Redis.

Rules: the same lessons give the same counts as in Redis, to the last digit. A lesson is one transaction, and it is
on the disk when ``commit_lessons`` returns. Several processes may use one file: each look-up sees all lessons that
are committed, and writers wait for each other. A file has no false-positive budgets. It belongs
on a local disk, because SQLite relies on its locks (https://sqlite.org/wal.html). A file that is made here is
readable by its owner alone, because it has words of private mail.

A file is used only if it has exactly the rows that were written: opening it reads all of it. The totals have a
checksum, the sum of a hash of each row, modulo 2^63. A lesson subtracts the hashes of the rows that it replaces,
and adds those of the new ones. A file without a single byte is taken for a new one.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import asdict
from hashlib import blake2b
from itertools import chain
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
    from collections.abc import Iterable, Iterator, Sequence
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

_CHECKSUM_MODULUS = 2**63  # SQLite has signed integers of 64 bits

_SCHEMA = """
CREATE TABLE signature (field TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counts (
    name BLOB, class TEXT, count INTEGER NOT NULL, PRIMARY KEY (name, class)
) WITHOUT ROWID;
CREATE TABLE totals (content TEXT NOT NULL, changes INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE ledger (
    message_key TEXT PRIMARY KEY, version BLOB, label BLOB, weight BLOB, tokens BLOB, sums BLOB, learned_at BLOB,
    source BLOB, actor BLOB, score BLOB, first BLOB, change BLOB
);
"""
_SELECT_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
_SELECT_ROWS = ("SELECT * FROM signature", "SELECT * FROM counts", "SELECT * FROM ledger")
_ARE_TOKENS = "NOT (substr(name, 1, 1) = X'3D' AND instr(name, X'3A') = 0)"  # see ``bayes.counts.is_sum``
_SELECT_MESSAGES = "SELECT label, count(*) FROM ledger GROUP BY label"
_SELECT_WEIGHTS = f"SELECT class, sum(count) FROM counts WHERE {_ARE_TOKENS} GROUP BY class"  # noqa: S608
_SELECT_VOCABULARY = f"SELECT count(DISTINCT name) FROM counts WHERE {_ARE_TOKENS}"  # noqa: S608


class FileModel:
    """Counts and their ledger in the file ``path``, which is made where there is none.

    It belongs to the thread that made it. Raises ``StoreIncompatible`` for a file that is damaged, or of another
    program or version, and ``StoreUnavailable`` where it cannot be opened; the methods raise both too, and have
    changed nothing then.
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
        """Make the tables of a new file, or check that this version can use all of what is there."""
        application_id, pages = self._pragma("application_id"), self._pragma("page_count")
        if pages and application_id != _APPLICATION_ID:
            raise StoreIncompatible(f"{self._path} is a database of another program")
        if not pages:
            self._make_tables()
        with self._transaction("DEFERRED"):
            stored = dict(self._database.execute("SELECT field, value FROM signature"))
            if found := difference(stored, self._signature):
                raise StoreIncompatible(
                    f"{self._path} has {found}: use the nbstream and the key that wrote it, or a new file"
                )
            self._verify()
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")

    def _verify(self) -> None:
        """Raise ``StoreIncompatible`` unless the file has the rows that were written, and nothing else."""
        with closing(sqlite3.connect(":memory:")) as pattern:
            pattern.executescript(_SCHEMA)
            expected = pattern.execute(_SELECT_SCHEMA).fetchall()
        if self._database.execute(_SELECT_SCHEMA).fetchall() != expected:
            raise self._damaged("its tables are others")
        (found,) = self._database.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found)
        found_totals = self._database.execute("SELECT * FROM totals").fetchall()
        *row, checksum = found_totals[0] if len(found_totals) == 1 else (None,)
        rows = chain.from_iterable(map(self._database.execute, _SELECT_ROWS))
        if checksum != _sum_hashes(chain([tuple(row)], rows)):
            raise self._damaged("its checksum is another")
        if self._totals()[0] != self._sums_of_counts():
            raise self._damaged("its totals are not the sums of its counts")

    def _sums_of_counts(self) -> Totals:
        """Return the totals as they are by the counts and the ledger."""
        messages, weights = (dict(self._database.execute(query)) for query in (_SELECT_MESSAGES, _SELECT_WEIGHTS))
        (vocabulary,) = self._database.execute(_SELECT_VOCABULARY).fetchone()
        columns = self._totals()[0].columns
        others = sorted((messages.keys() | weights.keys()) - {*columns})
        columns = (*columns, *map(str, others))
        return Totals(
            tuple(messages.get(column, 0) for column in columns),
            tuple(weights.get(column, 0) for column in columns),
            vocabulary,
            columns,
        )

    def _damaged(self, reason: object) -> StoreIncompatible:
        return StoreIncompatible(f"{self._path} is damaged, or no model: {reason}; put back a copy of it")

    def _make_tables(self) -> None:
        """Make the tables, all in one transaction, unless another process does it at the same moment."""
        try:
            self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
            self._database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self._database.executemany("INSERT INTO signature VALUES (?, ?)", self._signature.items())
            self._write_totals(Totals(), 0, _sum_hashes(self._signature.items()))
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
        totals, changes, checksum = self._totals()
        entries = [entry for entry in (old, new) if entry]
        names = list({name: None for entry in entries for name in (*entry.tokens, *dict(entry.sums))})
        columns = tuple(dict.fromkeys([*totals.columns, *[entry.column for entry in entries]]))
        counts, rows = ClassCounts(columns), self._rows(names, columns)
        counts.set_counts(names, rows)
        counts.set_totals(totals)
        apply_lesson(counts, old, new)
        checksum += self._write_rows(names, columns, rows, counts.look_up_columns(names))
        checksum += self._write_entry(message_key, new, change := _change_id(changes + 1))
        self._write_totals(counts.column_totals, changes + 1, checksum)
        return change

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
    ) -> int:
        """Replace the ``old`` counts of these names by ``new`` ones, and return what the checksum grows by."""
        before, after = (_stored_rows(names, columns, rows) for rows in (old, new))
        self._database.executemany(
            "DELETE FROM counts WHERE name = ? AND class = ?", [row[:2] for row in before.difference(after)]
        )
        self._database.executemany("INSERT INTO counts VALUES (?, ?, ?)", after.difference(before))
        return _sum_hashes(after) - _sum_hashes(before)

    def _totals(self) -> tuple[Totals, int, int]:
        """Return the totals, the number of changes, and the checksum of all rows but that of the totals."""
        row = self._database.execute("SELECT * FROM totals").fetchone()
        try:
            content, changes, checksum = row
            messages, weights, vocabulary, columns = json.loads(content).values()
            totals = Totals(tuple(messages), tuple(weights), vocabulary, tuple(columns))
            return totals, changes, checksum - _sum_hashes([row[:-1]])
        except (AttributeError, TypeError, ValueError) as error:
            raise self._damaged("its totals are no numbers") from error

    def _write_totals(self, totals: Totals, changes: int, checksum: int) -> None:
        """Write the totals; ``checksum`` is that of all other rows."""
        self._database.execute("DELETE FROM totals")
        values = json.dumps(asdict(totals)), changes
        checksum = (checksum + _sum_hashes([values])) % _CHECKSUM_MODULUS
        self._database.execute("INSERT INTO totals VALUES (?, ?, ?)", (*values, checksum))

    def _entry(self, message_key: str) -> LedgerEntry | None:
        fields = ", ".join(_LEDGER_FIELDS)
        query = f"SELECT {fields} FROM ledger WHERE message_key = ?"  # noqa: S608 - names of this module
        row = self._database.execute(query, (message_key,)).fetchone()
        if row is None:
            return None
        values = (value if isinstance(value, bytes) else str(value).encode() for value in row)
        return LedgerEntry.unpack(dict(zip(map(str.encode, _LEDGER_FIELDS), values, strict=True)))

    def _write_entry(self, message_key: str, entry: LedgerEntry | None, change: bytes) -> int:
        """Replace the entry of a message, and return what the checksum grows by."""
        before = self._hash_of_entry(message_key)
        self._database.execute("DELETE FROM ledger WHERE message_key = ?", (message_key,))
        if entry:
            fields = {**entry.pack(), "change": change}
            marks = ", ".join("?" * (1 + len(_LEDGER_FIELDS)))
            statement = f"INSERT INTO ledger VALUES ({marks})"  # noqa: S608 - question marks
            self._database.execute(statement, (message_key, *(fields[name] for name in _LEDGER_FIELDS)))
        return self._hash_of_entry(message_key) - before

    def _hash_of_entry(self, message_key: str) -> int:
        """Return the hash of the entry as it is stored, 0 for none."""
        return _sum_hashes(self._database.execute("SELECT * FROM ledger WHERE message_key = ?", (message_key,)))

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


def _stored_rows(
    names: Sequence[bytes], columns: Sequence[str], rows: NDArray[np.int64]
) -> set[tuple[bytes, str, int]]:
    """Return the rows of the table of counts for these counts; a count of 0 has none."""
    places = zip(*map(np.ndarray.tolist, np.nonzero(rows)), strict=True)
    return {(names[row], columns[column], int(rows[row, column])) for row, column in places}


def _sum_hashes(rows: Iterable[tuple[object, ...]]) -> int:
    """Return the checksum of these rows: the sum of their hashes, modulo 2^63.

    ``ascii`` tells text from bytes and numbers, and is the same in all versions of Python.
    """
    hashes = (blake2b(ascii(row).encode(), digest_size=8).digest() for row in rows)
    return sum(map(int.from_bytes, hashes)) % _CHECKSUM_MODULUS


def _change_id(changes: int) -> bytes:
    """Return the id of a change, which looks like that of a stream of Redis."""
    return b"0-%d" % changes if changes else b""
