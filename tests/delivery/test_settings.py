"""The way out: servers over TCP and unix sockets, TLS, the login, and no way back into this daemon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from nbstream.daemon.config import load_settings
from nbstream.errors import ConfigError

Write: TypeAlias = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a configuration file."""

    def write_text(text: str) -> Path:
        file = tmp_path / "nb.yaml"
        file.write_text(text)
        return file

    return write_text


def refusal_of(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    return str(caught.value)


@pytest.fixture
def secrets(tmp_path: Path) -> str:
    """The two settings of a login."""
    (tmp_path / "user").write_text("ann\n")
    (tmp_path / "password").write_text("open sesame\n")
    return f"user_file: {tmp_path / 'user'}, password_file: {tmp_path / 'password'}"


@pytest.mark.parametrize(
    "text",
    [
        "lmtp://h",
        "lmtp://h:0",
        "lmtp://h:25",
        "lmtps://h:24",
        "lmtp:unix:run",
        "smtps:unix:/run/x",
        "lmtp://unix:/x",
        "lmtp:/run/x",
    ],
)
def test_what_is_no_server(write: Write, text: str) -> None:
    assert "relay.next_hop: " in refusal_of(write(f"relay: {{next_hop: '{text}'}}"))


REFUSALS = {
    "on": (
        "next_hop: smtp://mx:25, tls: on",
        "relay.tls: found true, must be off, may, encrypt or verify",
    ),
    "a list": ("next_hop: smtp://mx:25, tls: [may]", "relay.tls: found a list, must be off, may, "),
    "Maildir": ("tls: may", "relay.tls: found 'may', must be off: relay.next_hop is not a server at HOST:PORT"),
    "unix": ("next_hop: 'lmtp:unix:/x', tls: verify", "relay.tls: found 'verify', must be off: "),
    "smtps in plain text": (
        "next_hop: smtps://mx:465",
        "relay.tls: found 'off' (the default), must be encrypt or verify: smtps://",
    ),
    "smtps perhaps": ("next_hop: smtps://mx:465, tls: may", "relay.tls: found 'may', must be encrypt or verify: "),
    "authority": ("next_hop: smtp://mx:25, tls: encrypt, tls_ca_file: /dev/null", "relay.tls_ca_file: "),
    "no authority": (
        "next_hop: smtp://mx:25, tls: verify, tls_ca_file: /x/y",
        "must be a readable file with cert",
    ),
}


@pytest.mark.parametrize(("relay", "refusal"), REFUSALS.values(), ids=REFUSALS)
def test_refused_tls(write: Write, relay: str, refusal: str) -> None:
    assert refusal in refusal_of(write(f"relay: {{{relay}}}"))


@pytest.mark.parametrize(
    "relay",
    ["smtp://127.0.0.1:26", "lmtp:unix:/run/x", "smtp://mx:25, tls: encrypt", "smtps://mx:465, tls: verify"],
)
def test_a_login_where_nobody_overhears_it(write: Write, secrets: str, relay: str) -> None:
    text = f"'{relay}'" if "unix" in relay else relay
    settings = load_settings(write(f"relay: {{next_hop: {text}, {secrets}}}"))

    assert settings.relay.user_file is not None
    assert settings.relay.user_file.secret.get_secret_value() == "ann"


@pytest.mark.parametrize("relay", ["smtp://mx:25", "lmtp://mx:24, tls: may", "maildir"])
def test_a_login_that_anyone_could_read_is_refused(write: Write, secrets: str, relay: str) -> None:
    refusal = refusal_of(write(f"relay: {{next_hop: {relay}, {secrets}}}"))

    assert "relay.user_file: " in refusal
    assert "sesame" not in refusal


@pytest.mark.parametrize(
    "text",
    [
        "relay: {next_hop: smtp://127.0.0.1:10025}",
        "relay: {next_hop: lmtp://localhost:10025}",
        "listeners: {spamd: {listen: 127.0.0.1:783}}\nrelay: {next_hop: smtp://127.0.0.1:783}",
        "listeners: {spamd: {listen: 'unix:/run/a'}}\nrelay: {next_hop: 'lmtp:unix:/run/a'}",
        "listeners: {smtp: {listen: 0.0.0.0:25}}\nrelay: {next_hop: 'smtp://[::1]:25'}",
    ],
)
def test_mail_never_goes_back_into_this_daemon(write: Write, text: str) -> None:
    assert "next_hop must be another server: listeners." in refusal_of(write(text))
