"""The template of mailboxes: whose they are, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.server.imap import ImapAccount
from nbstream.training.template import (
    PathTemplate,
    account_of,
    parse_passwords,
    parse_template,
    parse_users,
)


def path_template(text: str) -> PathTemplate:
    template = parse_template(text)
    assert isinstance(template, PathTemplate)
    return template


def url_template(text: str) -> ImapAccount:
    template = parse_template(text)
    assert isinstance(template, ImapAccount)
    return template


def test_a_path_has_a_root_without_variables() -> None:
    template = path_template("/var/mail/%d/%n/Maildir")
    assert template.root == Path("/var/mail")
    assert template.names_of("ann@example.org") == ("example.org", "ann", "Maildir")


@pytest.mark.parametrize(
    ("text", "names", "user"),
    [
        ("/mail/%d/%n", ["example.org", "ann"], "ann@example.org"),
        ("/mail/%d/%u", ["example.org", "ann@example.org"], "ann@example.org"),
        ("/home/%n/Maildir", ["ann", "Maildir"], "ann"),
        ("/mail/%u.mbox", ["ann@example.org.mbox"], "ann@example.org"),
        ("/mail/100%%/%n-%d", ["ann-example.org"], "ann@example.org"),
        ("/mail/%d/%u", ["example.org", "ann@example.com"], None),
        ("/home/%n/Maildir", ["ann", "mail"], None),
        ("/home/%n", [".hidden"], None),
        ("/mail/%n/%n", ["ann", "ben"], None),
    ],
)
def test_names_of_folders_say_who_the_user_is(text: str, names: list[str], user: str | None) -> None:
    template = path_template(text)
    assert template.user_at(tuple(names)) == user
    if user is not None:
        assert all(template.matches(position, name) for position, name in enumerate(names))


def test_a_url_logs_in_as_the_user_or_as_a_master_for_him() -> None:
    account = account_of(url_template("imaps://%u@mail.example.org/"), "ann@example.org")
    assert (account.user, account.host, account.port) == ("ann@example.org", "mail.example.org", 993)
    master = account_of(url_template("imap://%n%2Amaster%40site@localhost:1143"), "ann@example.org")
    assert (master.user, master.port) == ("ann*master@site", 1143)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("var/mail/%n", "begins with /"),
        ("/var/mail/../%n", "without .."),
        ("/var/mail", "names no user"),
        ("/var/mail/%h", "has %h"),
        ("maildir:/var/mail/%n", "the path alone"),
        ("imaps://mail.example.org/", "is no imaps://"),
        ("imaps://ann@mail.example.org/", "names no user"),
        ("imaps://%u:secret@mail.example.org/", "has a password"),
        ("imaps://%u@mail.example.org:x/", "no URL"),
        ("imaps://%u%0A@mail.example.org", "control character"),
    ],
)
def test_any_other_template_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        parse_template(text)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "line", ["../root", "ann@../x", ".ann", "@example.org", "ann@", "a@b@c", "a\0b", "a" * 400]
)
def test_what_can_be_no_user_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no user"):
        parse_users([line])


@pytest.mark.parametrize(
    ("text", "passwords"),
    [
        ("ann:a\nben:b:b \ncal:c\n", {"ann": "a", "ben": "b:b "}),
        ("# old\nann:\n", {"ann": ""}),
        ("cal:c\nann:a\n", {"ann": "a"}),
        ("of the master\n", {"ann": "of the master", "ben": "of the master"}),
        ("of:the:master", {"ann": "of:the:master", "ben": "of:the:master"}),
    ],
)
def test_a_password_is_that_of_a_user_or_of_all(text: str, passwords: dict[str, str]) -> None:
    assert parse_passwords(text, ["ann", "ben"]) == passwords


@pytest.mark.parametrize("text", ["", "\n", "cal:c\ndan:d\n", "a password\nof two lines\n"])
def test_passwords_of_others_are_not_given_to_the_server(text: str) -> None:
    with pytest.raises(ValueError, match="has no line USER:PASSWORD") as refused:
        parse_passwords(text, ["ann", "ben"])
    assert "dan" not in str(refused.value)
