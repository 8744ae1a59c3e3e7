"""What other filters have learned is recognized by its first bytes, and refused in a sentence."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.other_filters.dumps import FIRST_BYTES, refusal

DUMPS = {
    b"Claim 3 0 20261128\nprize 2 1 20261128\n": "a dump of bogofilter",
    b".MSG_COUNT 1 2 0\n": "a dump of bogofilter",
    b"head:x-\x1b[2J 3 0 20261128\r\ncut": "a dump of bogofilter",
    b"v\t3\tdb_version # this must be the first line!!!\nv\t1\tnum_spam\n": "a backup of SpamAssassin",
    b"v\t2\tdb_version": "a backup of SpamAssassin",
    b"120,340\r\nprize,0,12\r\n": "an export of SpamBayes",
    b"120,340,\nprize`0`12`\n": "an export of SpamBayes",
    b"REDIS0011\xfa\tredis-ver": "a database of Redis",
    b"SQLite format 3\x00\x10": "an SQLite database",
    bytes(12) + b"\x62\x31\x05\x00": "a Berkeley database",
    bytes(12) + b"\x00\x06\x15\x61": "a Berkeley database",
}


@pytest.mark.parametrize(("first", "description"), DUMPS.items())
def test_the_sentence_says_what_the_file_is_and_names_the_better_way(first: bytes, description: str) -> None:
    said = refusal(first)
    assert said is not None
    assert said.startswith(f"is {description}")
    assert "nbstream learn --mailboxes" in said
    assert said.isprintable()


def test_gigabytes_are_recognized_by_their_beginning() -> None:
    assert refusal(b"prize 2 1 20261128\n" * FIRST_BYTES)


@pytest.mark.parametrize(
    "first",
    [b"", b"\x1f\x8b\x08", b"{}\n", b"a" * 2 * FIRST_BYTES, b"prize two 1 0\n", b"From ann 1 2\n", bytes(64)],
)
def test_other_files_are_left_to_the_reader_of_archives(first: bytes) -> None:
    assert refusal(first) is None


@pytest.mark.parametrize("option", ["-s", "-n"])
def test_a_real_bogofilter(tmp_path: Path, program: Callable[[str], str], option: str) -> None:
    letter = tmp_path / "letter"
    letter.write_bytes(b"Subject: prize\n\nClaim your free prize now\n")
    learn = [program("bogofilter"), "-d", str(tmp_path), option, "-I", str(letter)]
    subprocess.run(learn, check=True, timeout=60)

    database = (tmp_path / "wordlist.db").read_bytes()
    dump = [program("bogoutil"), "-d", str(tmp_path / "wordlist.db")]
    dumped = subprocess.run(dump, capture_output=True, check=True, timeout=60).stdout

    assert "a dump of bogofilter" in (refusal(dumped) or "")
    assert "a Berkeley database" in (refusal(database) or "")


def test_a_real_sqlite_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "bayes.spam.sqlite") as database:
        database.execute("CREATE TABLE tokens (token INTEGER, value INTEGER)")
    assert "an SQLite database" in (refusal((tmp_path / "bayes.spam.sqlite").read_bytes()) or "")
