"""The URL of an IMAP folder."""

from __future__ import annotations

import pytest

from nbstream.cli.imap.url import ImapFolder, parse_imap_url
from nbstream.imap.connection import ImapAccount


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        (
            "imaps://ann@mail.example.org/Junk",
            ImapFolder(ImapAccount("mail.example.org", 993, True, "ann"), "Junk"),
        ),
        ("imap://ann@[::1]:1143/a/b", ImapFolder(ImapAccount("::1", 1143, False, "ann"), "a/b")),
        (
            "imaps://ann%40example.org@mail.example.org/Gel%C3%B6scht%20%26%20mehr",
            ImapFolder(ImapAccount("mail.example.org", 993, True, "ann@example.org"), "Gelöscht & mehr"),
        ),
    ],
)
def test_a_url_names_an_account_and_a_folder_and_is_written_again(url: str, folder: ImapFolder) -> None:
    assert parse_imap_url(url) == folder
    assert parse_imap_url(str(folder)) == folder


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://ann@mail.example.org/Junk",
        "imaps://ann@/Junk",
        "imaps://ann@mail.example.org",
        "imaps://ann@mail.example.org:99999/Junk",
        "imaps://ann@mail.example.org/Junk?UNSEEN",
        "imaps://ann@mail.example.org/%FF",
        "imaps://ann@mail.example.org/a%0D%0Ab",
        "imaps://ann%00@mail.example.org/Junk",
        "imaps://ann@[::1/Junk",
    ],
)
def test_what_is_no_folder_is_said(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(is no|has a control)"):
        parse_imap_url(url)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="has a password") as refused:
        parse_imap_url("imaps://ann:secret@mail.example.org/Junk")
    assert "secret" not in str(refused.value)
