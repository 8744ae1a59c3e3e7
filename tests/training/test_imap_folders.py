"""A connection to a server that does what it wants: everything ends, in time and in memory."""

from __future__ import annotations

import tracemalloc

import pytest

from nbstream.errors import NbstreamError
from nbstream.server import imap
from nbstream.server.imap import ImapAccount
from nbstream.training.imap import read_folders
from nbstream.training.template import ImapFolder, parse_imap_url
from tests.harness.scripted_imap_server import Server

GREETING = b"* OK hello\r\n"
CAPABILITY = b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n%b OK done\r\n"
LOGGED_IN = b"%b OK done\r\n"
EXAMINED = b"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n%b OK [READ-ONLY]\r\n"
FOUND = b"* SEARCH 3 5\r\n%b OK done\r\n"
SIZES = b"* 1 FETCH (UID 3 RFC822.SIZE 20)\r\n* 2 FETCH (UID 5 RFC822.SIZE 20)\r\n%b OK done\r\n"
RAW = b"Subject: x\r\n\r\ntext\r\n"
CONTENTS = (
    b"* 1 FETCH (UID 3 BODY[] {20}\r\n"
    + RAW
    + b")\r\n* 2 FETCH (BODY[] {20}\r\n"
    + RAW
    + b" UID 5)\r\n%b OK done\r\n"
)
WHOLE = (GREETING, CAPABILITY, LOGGED_IN, EXAMINED, CAPABILITY, FOUND, SIZES, CONTENTS)


def read(*answers: bytes) -> tuple[list[tuple[str, bytes]], list[str], Server]:
    """What is read of a folder at a server with these answers, the errors, and the server."""
    server = Server(answers)
    errors: list[NbstreamError] = []
    with server.running():
        folder = ImapFolder(server.account, "Gelöscht")
        messages = list(read_folders([folder], {server.account: "secret"}, None, errors))
    prefix = f"{folder}: "
    return messages, [str(error).removeprefix(prefix) for error in errors], server


def test_messages_come_in_the_order_of_their_uids() -> None:
    messages, errors, server = read(*WHOLE)

    assert errors == []
    assert [raw for _, raw in messages] == [RAW, RAW]
    assert [name.rpartition("#")[2] for name, _ in messages] == ["3", "5"]
    words = [line.partition(b" ")[2] for line in server.lines]
    assert words == [
        b"CAPABILITY\r\n",
        b"AUTHENTICATE PLAIN\r\n",
        b"",  # user and password
        b'EXAMINE "Gel&APY-scht"\r\n',
        b"CAPABILITY\r\n",
        b"UID SEARCH UNDELETED\r\n",
        b"UID FETCH 3,5 (RFC822.SIZE)\r\n",
        b"UID FETCH 3,5 (BODY.PEEK[])\r\n",
    ]


def test_a_server_that_leaves_at_any_byte_is_an_error_and_what_came_is_read() -> None:
    for index, answer in enumerate(WHOLE):
        for end in range(0, len(answer) - 2, 17):
            messages, errors, _ = read(*WHOLE[:index], answer[:end])

            assert errors == ["the server has closed the connection"]
            assert messages == []


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([b"* BYE go away\r\n"], "the server does not greet: * BYE go away"),
        ([*WHOLE[:2], b"%b NO [AUTHENTICATIONFAILED] wrong\r\n"], "the server refuses AUTHENTICATE: NO [AUTHENT"),
        ([*WHOLE[:3], b"%b NO no such folder\r\n"], "the server refuses EXAMINE: NO no such folder"),
        ([*WHOLE[:3], b"* BYE shutting down\r\n"], "the server ends the connection: shutting down"),
        (
            [GREETING, b"* CAPABILITY IMAP4 LOGINDISABLED\r\n%b OK done\r\n"],
            "the server has no way to log in by a password",
        ),
    ],
)
def test_a_server_that_refuses_or_lies_is_an_error(answers: list[bytes], error: str) -> None:
    messages, errors, _ = read(*answers)

    assert messages == []
    assert len(errors) == 1
    assert errors[0].startswith(error)


@pytest.mark.parametrize(
    ("step", "answer", "times", "error"),
    [
        (0, b"x", 2_000_000, "the answer is larger than 1048576 bytes"),
        (3, b"* 1 EXISTS\r\n", 10_000, "the answer is larger than 1048576 bytes"),
        (5, b"* SEARCH 1 ", 2_000_000, "the answer is larger than 4194304 bytes"),
        (7, b"* 1 FETCH (UID 3 BODY[] {4294967296}\r\n", 1, "the answer is larger than 2162688 bytes"),
        (7, b"\0\xff", 5_000_000, "the answer is larger than 1048576 bytes"),
        (7, b"(" * 10_000 + b"\r\n", 1, "this is not IMAP: "),
        (7, b"* 1 FETCH (UID 3 BODY[] " + b"(" * 10_000 + b"\r\n%b OK done\r\n", 1, "this is not IMAP: "),
    ],
)
def test_what_a_hostile_server_sends_is_bounded(step: int, answer: bytes, times: int, error: str) -> None:
    answers = [*WHOLE[:step], answer * times]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    messages, errors, _ = read(*answers)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()

    assert messages == []
    assert len(errors) == 1
    assert errors[0].startswith(error)
    assert peak < 100 << 20  # with the answer itself, which the server has in memory too


def test_a_message_that_is_too_large_or_empty_or_gone_is_left_out() -> None:
    sizes = b"* 1 FETCH (UID 3 RFC822.SIZE 99999999)\r\n* 2 FETCH (UID 5 RFC822.SIZE 2)\r\n%b OK done\r\n"
    content = b"* 2 FETCH (UID 5 BODY[] {2}\r\n\r\n)\r\n* 1 FETCH (UID 3 BODY[] {1}\r\nx)\r\n%b OK done\r\n"

    messages, errors, server = read(*WHOLE[:6], sizes, content)
    name = ImapFolder(server.account, "Gelöscht")
    assert (messages, errors) == ([], [f"{name}#3: larger than 50 MiB", f"{name}#5: empty, that is no message"])
    assert server.lines[-1].endswith(b" UID FETCH 5 (BODY.PEEK[])\r\n")

    assert read(*WHOLE[:7], b"* 2 EXPUNGE\r\n%b OK done\r\n")[:2] == ([], [])
    assert read(*WHOLE[:6], b"%b OK done\r\n")[:2] == ([], [])


def test_a_server_that_sends_little_by_little_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap, "_COMMAND_SECONDS", 1.0)
    _, errors, _ = read(*WHOLE[:3], b"...")
    assert errors == ["timed out"]


def test_a_password_does_not_go_to_another_machine_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap, "_is_on_this_machine", lambda _: False)
    _, errors, server = read(*WHOLE)
    assert errors == ["the server has no TLS, and is not on this machine: the password would be readable"]
    assert [line.partition(b" ")[2] for line in server.lines] == [b"CAPABILITY\r\n"]

    offered = b"* CAPABILITY IMAP4 STARTTLS AUTH=PLAIN\r\n%b OK done\r\n"
    _, errors, server = read(GREETING, offered, b"%b NO\r\n")
    assert errors == ["the server refuses STARTTLS: NO"]
    assert not any(b"AUTH" in line for line in server.lines)


def test_what_is_sent_before_tls_begins_is_no_answer_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap, "_is_on_this_machine", lambda _: False)
    offered = b"* CAPABILITY IMAP4 STARTTLS AUTH=PLAIN\r\n%b OK done\r\n"
    _, errors, server = read(GREETING, offered, b"%b OK begin\r\n* OK injected\r\n")

    assert len(errors) == 1
    assert "SSL" in errors[0]
    assert len(server.lines) == 2


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
