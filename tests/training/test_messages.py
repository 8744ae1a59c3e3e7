"""What is read of a header, and the roles of folders."""

from __future__ import annotations

import pytest

from nbstream.training.folder_roles import folder_role
from nbstream.training.messages import Folder, FolderRole, MessageFlags, needs_header, read_header, reading_order

HEADER = (
    b"Received: from a by b;\n\tSat, 28 Nov 2026 05:00:00 +0000\nX-Nbstream: spam; probability=1\n"
    b"From: =?utf-8?q?Ann?= <Ann@Example.org>\nMessage-ID:\n <1@example.org>\nIn-Reply-To: <0@example.org> (hm)\n"
    b"\nMessage-ID: <2@example.org>\n"
)


def test_a_header_is_read_with_line_ends_of_any_kind() -> None:
    header = read_header(HEADER, "X-Nbstream")
    assert header == read_header(HEADER.replace(b"\n", b"\r\n"), "X-Nbstream")
    assert header.sender == "ann@example.org"
    assert header.received == 1795842000
    assert header.is_own_spam


def test_an_answer_names_the_message_that_it_answers() -> None:
    answered = read_header(b"Message-ID: <0@example.org>\n\n", "X-Nbstream")
    assert read_header(HEADER, "X-Nbstream").answers == answered.message_id != 0


def test_the_verdict_of_ham_and_the_field_of_another_filter_are_no_own_spam() -> None:
    assert not read_header(HEADER.replace(b"spam;", b"ham;"), "X-Nbstream").is_own_spam
    assert not read_header(HEADER, "X-Other").is_own_spam


@pytest.mark.parametrize(
    "raw", [b"", b"\n\nbody", b"no field", b"\0\xff" * 9, b"Date: 99 Foo 9999999 99:99:99\n\n"]
)
def test_what_is_no_header_says_nothing(raw: bytes) -> None:
    assert read_header(raw, "X-Nbstream").received is None


@pytest.mark.parametrize("text", [b"(" * 5_000, b"a:" * 5_000, b"<" * 5_000, b'"' * 5_000])
def test_a_sender_that_nests_deeply_is_none(text: bytes) -> None:
    assert read_header(b"From: " + text + b"\n\n", None).sender == ""


def test_copies_have_one_identity_also_without_a_message_id() -> None:
    raw = b"From: a@example.org\nSubject: x\nDate: Sat, 28 Nov 2026 05:00:00 +0000\n\n"
    header = read_header(raw, "X-Nbstream")
    assert header.identity == read_header(b"Received: by b; now\n" + raw, "X-Nbstream").identity != 0
    assert header.message_id == 0


def test_sent_mail_is_read_first() -> None:
    names = ["Work", "INBOX", "Junk", "Sent"]
    folders = sorted([Folder(name, folder_role(name)) for name in names], key=reading_order)
    assert [folder.name for folder in folders] == ["Sent", "Junk", "INBOX", "Work"]


def test_no_header_of_the_unread_inbox_is_read() -> None:
    assert not needs_header(FolderRole.INBOX, MessageFlags.NONE)
    assert not needs_header(FolderRole.TRASH, MessageFlags.SEEN)
    assert needs_header(FolderRole.INBOX, MessageFlags.SEEN)
    assert needs_header(FolderRole.JUNK, MessageFlags.NONE)
