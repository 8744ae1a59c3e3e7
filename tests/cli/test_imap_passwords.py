"""The passwords of IMAP accounts: one file for one server."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.cli.commands.learn import read_passwords
from nbstream.errors import ConfigError
from nbstream.server.imap import ImapAccount

ANN = ImapAccount("mail.example.org", 993, True, "ann")
BOB = ImapAccount("mail.example.org", 143, False, "bob")
EVE = ImapAccount("elsewhere.example", 993, True, "ann")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return path


def test_the_password_in_the_file_is_for_all_accounts_at_a_server(file: Path) -> None:
    assert read_passwords([ANN, BOB, ANN], file) == {ANN: "secret", BOB: "secret"}


def test_no_server_gets_to_know_the_password_at_another_one(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"for one server, and these are elsewhere\.example, mail\.example\.org"):
        read_passwords([ANN, EVE], file)
