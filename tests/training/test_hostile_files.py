"""Mailboxes whose owners want them read otherwise, and mailboxes that change: nothing by half, and an end."""

from __future__ import annotations

import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.training.messages import MAX_FOLDERS
from tests.training.site import Site, put, raw

NO_FILE = "is a link, a pipe or a device, which is not read"
CHANGED = "was changed while it was read: run the command again"
GONE = "is not there, or was moved while it was read"


def names(site: Site) -> list[str]:
    return sorted({message.folder.name for message in site.messages()})


# What is no mailbox


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def link_to_folder(path: Path) -> None:
    path.symlink_to("/etc")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def endless_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero


SPECIAL = [link, link_to_folder, link_to_itself, os.mkfifo, bound_socket, endless_device]


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize("place", ["", "cur/9:2,S", "new/9", ".Junk", ".Junk/cur", "dovecot-keywords"])
def test_what_is_neither_a_file_nor_a_folder_is_not_opened(
    tmp_path: Path, make: Callable[[Path], None], place: str
) -> None:
    account = tmp_path / "ann"
    if place:
        put(account, 1, "S")
    if place.startswith(".Junk/"):
        (account / ".Junk").mkdir()
    make(account / place)
    site = Site(tmp_path)

    read = site.read(site.places())

    assert read == ([(0, raw(1))] if place else [])
    assert set(site.reasons) <= {NO_FILE}


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize("victim", ["ann", "ann/.Junk", "ann/.Junk/cur", "ann/.Junk/cur/1.M1.host:2,S"])
def test_what_becomes_something_else_between_plan_and_lesson_is_not_opened(
    tmp_path: Path, make: Callable[[Path], None], victim: str
) -> None:
    put(tmp_path / "mail" / "ann", 2, "S")
    put(tmp_path / "mail" / "ann" / ".Junk", 1, "S")
    site = Site(tmp_path / "mail")
    places = site.places()
    (tmp_path / "mail" / victim).rename(tmp_path / "aside")
    make(tmp_path / "mail" / victim)

    read = site.read(places)

    assert [content for _, content in read] == ([] if victim == "ann" else [raw(2)])
    assert set(site.reasons) == {NO_FILE}


# Names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b".Ju\nnk", "Ju\nnk"),
        (b".\x1b[2JJunk", "\x1b[2JJunk"),
        (b".&AAo-", "\n"),
        (b".&AC4ALgAv-etc", "../etc"),
        (b".\xff\xfe", r"\xff\xfe"),
        (b".a..b", "a//b"),
        (b"." + b"x" * 254, "x" * 254),
    ],
)
def test_a_folder_of_any_name_is_read_where_it_lies(tmp_path: Path, name: bytes, shown: str) -> None:
    folder = tmp_path / "ann" / os.fsdecode(name)
    put(tmp_path / "ann", 1, "S")
    put(folder, 2, "S")
    site = Site(tmp_path)

    assert names(site) == sorted(["INBOX", shown])
    assert {content for _, content in site.read(site.places())} == {raw(1), raw(2)}
    assert site.skips == []


# Size and number


def test_a_message_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    path = put(tmp_path / "ann", 1, "S")
    grown = put(tmp_path / "ann", 2, "S")
    os.truncate(path, 1 << 30)
    site = Site(tmp_path)
    tracemalloc.start()
    places = site.places()
    os.truncate(grown, 1 << 30)
    sizes = sorted(message.size for message in site.messages())
    read = site.read([place for place in places if place.locator.startswith(b"cur/2")])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert sizes == [1 << 30, 1 << 30]  # such a message is left out by its size
    assert read == []
    assert site.reasons == [CHANGED]
    assert peak < 120 << 20


@pytest.mark.parametrize("kind", ["folders of Maildir++", "folders"])
def test_of_very_many_folders_some_are_read(tmp_path: Path, kind: str) -> None:
    account = tmp_path / "ann"
    put(account, 1, "S")
    for number in range(3_000):
        (account / f"{'.' if kind.startswith('folders of') else ''}{number}" / "cur").mkdir(parents=True)
    site = Site(tmp_path)
    tracemalloc.start()
    messages = site.messages()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(messages) == 1
    assert any(f"more than {MAX_FOLDERS:,} folders" in why for why in site.reasons)
    assert len(site.skips) < 10
    assert peak < 20 << 20


# Changes meanwhile


def test_a_folder_that_was_renamed_or_emptied_between_plan_and_lesson_is_said(tmp_path: Path) -> None:
    put(tmp_path / "ann", 1, "S")
    for number, folder in enumerate((".Junk", ".Moon", ".Sun"), start=2):
        put(tmp_path / "ann" / folder, number, "S")
    site = Site(tmp_path)
    places = site.places()
    (tmp_path / "ann" / ".Junk").rename(tmp_path / "ann" / ".Spam")
    (tmp_path / "ann" / ".Moon" / "cur" / "3.M1.host:2,S").unlink()

    assert {content for _, content in site.read(places)} == {raw(1), raw(4)}
    assert site.reasons == [GONE, GONE]
