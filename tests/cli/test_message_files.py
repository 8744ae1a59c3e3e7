"""Messages from paths: files, mboxes, folders, Maildirs, standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
from pathlib import Path

import pytest

from nbstream.cli.message_files import read_messages
from nbstream.errors import NbstreamError


def result(*paths: Path | str) -> list[tuple[str, bytes]]:
    errors: list[NbstreamError] = []
    sources = [(source.name, source.raw) for source in read_messages(map(str, paths), errors)]
    assert not errors
    return sources


def test_an_mbox_is_many_and_its_quoting_is_undone(tmp_path: Path) -> None:
    mbox = tmp_path / "box"
    mbox.write_bytes(
        b"From a Sat Nov 21 10:00:00 2026\nSubject: 1\n\n>From here\n>>From there\n\n"
        b"From b Sat Nov 21 10:00:01 2026\nSubject: 2\n\nFrom the top\n"
    )

    assert result(mbox) == [
        (f"{mbox}#1", b"Subject: 1\n\nFrom here\n>From there\n"),
        (f"{mbox}#2", b"Subject: 2\n\nFrom the top\n"),
    ]


def test_a_folder_is_all_its_files_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b", "a/z", ".hidden", "a/.git/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())

    assert [raw for _, raw in result(tmp_path)] == [b"b", b"a/z"]


def test_nobody_waits_for_a_pipe_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    os.mkfifo(tmp_path / "b")
    (tmp_path / "c").symlink_to("b")

    assert [raw for _, raw in result(tmp_path)] == [b"a"]


def test_a_maildir_is_its_new_and_cur_only(tmp_path: Path) -> None:
    for name in ("new/1", "cur/2:2,S", "tmp/3", "dovecot-uidlist"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())

    assert [raw for _, raw in result(tmp_path)] == [b"new/1", b"cur/2:2,S"]


def test_deleted_mail_and_what_a_server_keeps_in_a_folder_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, name in (("cur", "1:2,S"), ("cur", "2:2,ST"), ("new", "3:2,T")):
        (tmp_path / "maildir" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "maildir" / folder / name).write_bytes(b"Subject: x\n\n")
    mailbox = tmp_path / "mailbox"
    mailbox.write_bytes(
        b"From a 10:00\nSubject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\n\n\n"
        b"From a 10:00\nX-Status: D\nSubject: gone\n\n\nFrom a 10:00\nSubject: here\n\nX-Status: D\n"
    )

    names = [message.name for message in read_messages([str(tmp_path / "maildir"), str(mailbox)], [])]

    assert names == [f"{tmp_path}/maildir/new/3:2,T", f"{tmp_path}/maildir/cur/1:2,S", f"{mailbox}#3"]
    assert "1 deleted message left out" in capsys.readouterr().err


def test_standard_input_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello")))

    assert result("-") == [("-", b"hello")]


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("a", "c"):
        (tmp_path / "folder" / name).write_bytes(name.encode())
    (tmp_path / "folder" / "b").symlink_to("gone")
    errors: list[NbstreamError] = []

    sources = list(read_messages([str(tmp_path / "missing"), str(tmp_path / "folder")], errors))

    assert [source.raw for source in sources] == [b"a", b"c"]
    said = "No such file or directory"
    assert [str(error) for error in errors] == [
        f"{tmp_path / 'missing'}: {said}",
        f"{tmp_path / 'folder/b'}: {said}",
    ]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\n", "empty, that is no message"),
        (b"\x7fELF\0\0", "a binary file, that is no message"),
        (gzip.compress(b"Subject: x\n\nhello\n"), "compressed, unpack it first"),
        (bz2.compress(b"Subject: x\n\nhello\n"), "compressed, unpack it first"),
        (lzma.compress(b"Subject: x\n\nhello\n"), "compressed, unpack it first"),
    ],
    ids=["empty", "binary", "gzip", "bzip2", "xz"],
)
def test_what_is_no_message_is_not_taken_for_one(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "x").write_bytes(content)
    errors: list[NbstreamError] = []

    assert list(read_messages([str(tmp_path)], errors)) == []
    assert [str(error) for error in errors] == [f"{tmp_path / 'x'}: {what}"]
