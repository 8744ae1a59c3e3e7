"""Canaries: who announces them, and that each is good for one message and for some minutes."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nbstream.filter.canaries import Canaries

KEY = "a" * 24


def test_a_message_that_nobody_announced_is_none(tmp_path: Path) -> None:
    canaries = Canaries(tmp_path / "canaries")

    assert not canaries.redeem(KEY)
    assert not canaries.withdraw(KEY)
    assert not (tmp_path / "canaries").exists()


def test_an_announced_message_is_one_once(tmp_path: Path) -> None:
    announced, redeemed = Canaries(tmp_path / "canaries"), Canaries(tmp_path / "canaries")  # two processes
    announced.announce(KEY)

    assert not redeemed.redeem("b" * 24)
    assert [redeemed.redeem(KEY), redeemed.redeem(KEY)] == [True, False]
    assert not announced.withdraw(KEY)


def test_of_several_workers_one_redeems_it(tmp_path: Path) -> None:
    canaries = Canaries(tmp_path / "canaries")
    canaries.announce(KEY)

    with ThreadPoolExecutor(8) as workers:
        redeemed = list(workers.map(canaries.redeem, [KEY] * 100))

    assert redeemed.count(True) == 1


def test_one_that_is_withdrawn_is_none(tmp_path: Path) -> None:
    canaries = Canaries(tmp_path / "canaries")
    canaries.announce(KEY)

    assert canaries.withdraw(KEY)
    assert not canaries.redeem(KEY)


def test_an_old_one_is_none(tmp_path: Path) -> None:
    canaries = Canaries(tmp_path / "canaries")
    for key in (KEY, "b" * 24):
        canaries.announce(key)
        os.utime(tmp_path / "canaries" / key, (time.time() - 400,) * 2)
    canaries.announce("c" * 24)

    assert not canaries.redeem(KEY)
    canaries.remove_old()
    assert [path.name for path in (tmp_path / "canaries").iterdir()] == ["c" * 24]


def test_only_the_daemons_user_can_announce_one(tmp_path: Path) -> None:
    Canaries(tmp_path / "canaries").announce(KEY)

    assert (tmp_path / "canaries").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "canaries" / KEY).stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        Canaries(tmp_path / "canaries").announce(KEY)
