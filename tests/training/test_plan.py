"""The plan in words: which months are left out, of real Maildirs and mboxes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbstream.training.choice import ENOUGH
from nbstream.training.plan import Plan, make_plan
from tests.training.site import MBOX_LINE, Site

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


def write_mbox(root: Path, folder: str, messages: list[bytes]) -> None:
    (root / "ann").mkdir(exist_ok=True)
    (root / "ann" / folder).write_bytes(b"".join(MBOX_LINE + raw + b"\n" for raw in messages))


def plan_of(root: Path) -> Plan:
    return make_plan(Site(root).source, lambda _user: None, 2000)


@pytest.mark.parametrize("write", [write_maildir, write_mbox])
def test_old_ham_beside_fresh_junk_is_left_out_with_its_months_and_how_to_teach_it(
    tmp_path: Path, write: Callable[[Path, str, list[bytes]], None]
) -> None:
    fresh = "Sat, 21 Nov 2026"
    old = [*messages("ham", "Mon, 4 Mar 2019", 20), *messages("ham", "Fri, 3 Apr 2020", 20)]
    write(tmp_path, "Archive", [*old, *messages("ham", fresh, ENOUGH)])
    write(tmp_path, "Junk", list(messages("spam", fresh, ENOUGH)))

    plan = plan_of(tmp_path)

    assert plan.counts() == {"ham": ENOUGH, "spam": ENOUGH}
    assert plan.lines()[0] == "accounts: 1, messages: 2040"
    assert plan.lines()[-2:] == [
        "left out: 40 ham of months without spam (2019-03 to 2020-04)",
        "left out: of months that one class alone has, the calendar would be learned as a clue; "
        "learn ham PATH and learn spam PATH teach them all the same",
    ]


@pytest.mark.parametrize("write", [write_maildir, write_mbox])
def test_what_is_learned_of_other_months_for_want_of_common_ones_is_said(
    tmp_path: Path, write: Callable[[Path, str, list[bytes]], None]
) -> None:
    write(tmp_path, "Archive", list(messages("ham", "Mon, 4 Mar 2019", 60)))
    write(tmp_path, "Junk", list(messages("spam", "Sat, 21 Nov 2026", 70)))

    plan = plan_of(tmp_path)

    assert plan.counts() == {"ham": 60, "spam": 70}
    assert [line for line in plan.lines() if "of months" in line] == [
        "balance: 60 ham are of months without spam that is learned (2019-03): "
        "when they came is a clue until there is more of both",
        "balance: 70 spam are of months without ham that is learned (2026-11): "
        "when they came is a clue until there is more of both",
    ]
