"""Mailboxes in files: what is found, what is left out, and what happens while their owners go on using them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbstream.training import files
from nbstream.training.messages import MessageFlags
from tests.training.site import Site, put, raw

SEEN, ANSWERED, FLAGGED = MessageFlags.SEEN, MessageFlags.ANSWERED, MessageFlags.FLAGGED


def folders(site: Site) -> dict[str, str]:
    return {message.folder.name: str(message.folder.role) for message in site.messages()}


def test_accounts_are_found_by_the_template(tmp_path: Path) -> None:
    for path in ("example.org/ann", "example.org/ben", "example.com/ann"):
        (tmp_path / path / "Maildir").mkdir(parents=True)
    (tmp_path / "example.com" / "nobody").mkdir()
    (tmp_path / "file").touch()
    site = Site(tmp_path, "%d/%n/Maildir")
    assert {account.user for account in site.accounts()} == {
        "ann@example.com",
        "ann@example.org",
        "ben@example.org",
    }
    assert site.accounts()[0].location.startswith(str(tmp_path))
    assert set(site.reasons) == {"is a link, a pipe or a device, which is not read"}  # the file has no folders


def test_only_those_who_consent_are_read_and_a_user_without_mailboxes_is_said(tmp_path: Path) -> None:
    for name in ("ann", "ben"):
        put(tmp_path / name, 1)
    site = Site(tmp_path, users=["ben@example.org", "cal"])
    assert [account.user for account in site.accounts()] == ["ben@example.org"]
    assert [str(skip) for skip in site.skips] == [f"{tmp_path}/cal: is not there, or was moved while it was read"]


def test_more_accounts_than_the_bound_are_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_ACCOUNTS", 2)
    for name in "abc":
        (tmp_path / name).mkdir()
    site = Site(tmp_path)
    assert len(site.accounts()) == 2
    assert "accounts" in site.reasons[0]


def test_the_folders_of_a_maildir_have_dots_between_their_levels(tmp_path: Path) -> None:
    for folder in ("", ".Junk", ".Work.Harbour", ".Entw&APw-rfe"):
        put(tmp_path / "ann" / folder, 1)
    (tmp_path / "ann" / ".sieve").mkdir()
    assert folders(Site(tmp_path)) == {
        "INBOX": "inbox",
        "Junk": "junk",
        "Work/Harbour": "sorted",
        "Entwürfe": "drafts",
    }


def test_what_is_no_maildir_is_said(tmp_path: Path) -> None:
    (tmp_path / "ann").write_text("hello")
    (tmp_path / "ben" / "mailboxes" / "INBOX" / "dbox-Mails").mkdir(parents=True)
    site = Site(tmp_path)
    assert [site.messages(0), site.messages(1)] == [[], []]
    assert "no Maildir: read an mbox over IMAP" in site.reasons[0]
    assert "dbox" in site.reasons[1]


def test_flags_are_those_of_the_name_and_of_dovecots_keywords(tmp_path: Path) -> None:
    put(tmp_path / "ann", 1, "RS")
    put(tmp_path / "ann", 2, "FSTa")
    put(tmp_path / "ann", 3, "Db")
    put(tmp_path / "ann", 4, None)
    (tmp_path / "ann" / "dovecot-keywords").write_text("0 $Junk\n1 NonJunk\n26 Junk\nx y z\n")
    assert {message.arrived: message.flags for message in Site(tmp_path).messages()} == {
        1: SEEN | ANSWERED,
        2: SEEN | FLAGGED | MessageFlags.DELETED | MessageFlags.JUNK,
        3: MessageFlags.DRAFT | MessageFlags.NOT_JUNK,
        4: MessageFlags.NONE,
    }


def test_what_was_sent_comes_first_and_of_a_folder_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_MESSAGES", 2)
    put(tmp_path / "ann" / ".Sent", 9, "S")
    for number in (1, 2, 3):
        put(tmp_path / "ann", number, "S")
    site = Site(tmp_path)
    assert [message.arrived for message in site.messages()] == [9, 3, 2]
    assert any("older ones are left out" in why for why in site.reasons)


def test_a_letter_whose_flags_have_changed_meanwhile_is_followed(tmp_path: Path) -> None:
    path, new = put(tmp_path / "ann", 1, ""), put(tmp_path / "ann", 2, None)
    site = Site(tmp_path)
    places = sorted(site.places(), key=lambda place: place.locator)
    path.rename(path.with_name("1.M1.host:2,RS"))
    new.rename(tmp_path / "ann" / "cur" / "2.M1.host:2,S")
    assert [body for _, body in site.read(places)] == [raw(1), raw(2)]
    assert site.skips == []


def test_a_letter_that_has_gone_meanwhile_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    put(tmp_path / "ann", 1).unlink()
    put(tmp_path / "ann", 2)
    gone = put(tmp_path / "ann", 3)
    site = Site(tmp_path)
    places = site.places()
    gone.unlink()
    assert [body for _, body in site.read(places)] == [raw(2)]
    assert site.reasons == ["is not there, or was moved while it was read"]


def test_letters_of_a_foreign_user_name_who_may_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "ann", 1)

    def refused(*_arguments: object, **_options: object) -> int:
        raise PermissionError(13, "Permission denied")

    site = Site(tmp_path)
    account = site.accounts()[0]
    monkeypatch.setattr(os, "open", refused)  # root, who may run the tests, may read everything
    assert list(site.source.messages(account, site.skips.append)) == []
    monkeypatch.undo()
    assert "run this as root" in site.reasons[0]
