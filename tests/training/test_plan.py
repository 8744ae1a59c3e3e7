"""The plan in words, of real Maildirs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nbstream.training.choice import make_plan
from tests.training.site import Site

_COPIED = 1_800_000_000  # when all files were copied here: in 2027


def messages(kind: str, received: str, count: int) -> Iterator[bytes]:
    """Messages whose sender calls them old, and which the server has received in a month."""
    for number in range(count):
        yield (
            f"Received: from there by mx.example.org; {received} 10:00:00 +0000\n"
            "Received: from nowhere by there; Thu, 1 Jan 2015 10:00:00 +0000\n"
            f"Message-ID: <{kind}.{received[-4:]}.{number}@example.com>\n"
            "Date: Thu, 1 Jan 2015 10:00:00 +0000\nFrom: ben@example.com\nSubject: x\n\ntext\n"
        ).encode()


def write_maildir(root: Path, folder: str, messages: list[bytes]) -> None:
    cur = root / "ann" / ("." + folder) / "cur"
    for name in ("cur", "new", "tmp"):
        (root / "ann" / name).mkdir(parents=True, exist_ok=True)
        (cur.parent / name).mkdir(parents=True, exist_ok=True)
    for number, raw in enumerate(messages):
        path = cur / f"{number}.M1.host:2,S"
        path.write_bytes(raw)
        os.utime(path, (_COPIED, _COPIED))


def test_it_says_how_many_of_each_class_and_when_the_server_received_them(tmp_path: Path) -> None:
    write_maildir(tmp_path, "Archive", list(messages("ham", "Mon, 4 Mar 2019", 60)))
    write_maildir(tmp_path, "Junk", list(messages("spam", "Sat, 21 Nov 2026", 7)))

    plan = make_plan(Site(tmp_path).source, 50)

    assert list(plan.lines()) == [
        "accounts: 1, messages: 67",
        "ham: 50 messages of 1 account, from 2019-03-04 to 2019-03-04",
        "spam: 7 messages of 1 account, from 2026-11-21 to 2026-11-21; a model needs 50 of each class",
        "an account gives at most 50 of a class, the newest",
        "left out: 10 older ones of accounts with very many",
    ]
