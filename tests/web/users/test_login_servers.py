"""Whose password it is, asked at Dovecot and at an IMAP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nbstream.addresses import TcpAddress
from nbstream.server import imap
from nbstream.web.users.login_servers import (
    DovecotLogin,
    ImapLogin,
    LoginUnavailable,
    auth_request,
    make_login_server,
)
from nbstream.web.users.settings import ImapLoginSetting, UserPageSettings
from tests.harness.imap_server import ImapServer
from tests.harness.postfix import open_folder
from tests.harness.programs import needs_root
from tests.harness.scripted_imap_server import Server

USERS = "ann@example.org:{PLAIN}secret\nbob:{PLAIN}a bä\nno-login@example.org:{PLAIN}x::::::nologin=y\n"


@pytest.fixture(scope="module")
def dovecot(program: Callable[[str], str]) -> Iterator[ImapServer]:
    program("dovecot")
    needs_root()
    with open_folder() as folder:
        server = ImapServer(folder, program)
        (folder / "users").write_text(USERS)
        (folder / "etc/dovecot/conf.d/auth.conf").write_text("auth_failure_delay = 0\n")
        with server.running():
            yield server


def at(dovecot: ImapServer) -> DovecotLogin:
    return DovecotLogin(dovecot.folder / "run/auth-client")


async def test_dovecot_names_the_user_as_its_mailboxes_do(dovecot: ImapServer) -> None:
    assert await at(dovecot).find_user("Ann@EXAMPLE.org", "secret", "192.0.2.1") == "ann@example.org"
    assert await at(dovecot).find_user("bob", "a bä", None) == "bob"


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann@example.org", "wrong"),
        ("ann@example.org", "secret "),
        ("nobody@example.org", "secret"),
        ("ann@example.org\0bob", "secret"),
        ("ann\tresp=AGJvYgBhIGIJYw==", "secret"),
        ("ann@example.org\nAUTH\t1\tPLAIN", "secret"),
        ("*", "secret"),
        ("", ""),
    ],
)
async def test_dovecot_lets_nobody_else_in(dovecot: ImapServer, name: str, password: str) -> None:
    assert await at(dovecot).find_user(name, password, None) is None


async def test_an_imap_server_says_whether_the_password_is_right(
    dovecot: ImapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.certificates.authority))  # that of the system
    login = ImapLoginSetting(TcpAddress("127.0.0.1", dovecot.tls_port), implicit_tls=True)
    server = ImapLogin(login)
    assert await server.find_user("ann@example.org", "secret", None) == "ann@example.org"
    assert await server.find_user("ann@example.org", "wrong", None) is None
    assert await server.find_user("nobody@example.org", "secret", None) is None
    server.close()


async def test_an_imap_server_that_cannot_prove_who_it_is_gets_no_password(dovecot: ImapServer) -> None:
    login = ImapLoginSetting(TcpAddress("127.0.0.1", dovecot.tls_port), implicit_tls=True)
    with pytest.raises(LoginUnavailable, match="certificate"):
        await ImapLogin(login).find_user("ann@example.org", "secret", None)


async def test_a_password_goes_over_tls_or_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([b"* OK hello\r\n", b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n%b OK done\r\n"])
    login = ImapLogin(ImapLoginSetting(TcpAddress("127.0.0.1", server.account.port), implicit_tls=False))
    monkeypatch.setattr(imap, "_is_on_this_machine", lambda _: False)
    with server.running(), pytest.raises(LoginUnavailable, match="no TLS"):
        await login.find_user("ann", "secret", None)
    assert [line.partition(b" ")[2] for line in server.lines] == [b"CAPABILITY\r\n"]


@pytest.mark.parametrize(
    "answers",
    [
        [b"* BYE too many\r\n"],
        [b"* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] hi\r\n", b"%b NO [UNAVAILABLE] later\r\n"],
        [b"* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] hi\r\n", b"* BYE\r\n"],
        [b"* OK [CAPABILITY IMAP4rev1 LOGINDISABLED] hi\r\n"],
        [b"220 mx ESMTP\r\n"],
    ],
)
async def test_an_imap_server_that_cannot_say_it_says_nothing_of_the_password(answers: list[bytes]) -> None:
    server = Server(answers)
    login = ImapLogin(ImapLoginSetting(TcpAddress("127.0.0.1", server.account.port), implicit_tls=False))
    with server.running(), pytest.raises(LoginUnavailable):
        await login.find_user("ann", "secret", None)


@asynccontextmanager
async def answering(path: Path, greeting: bytes, reply: bytes) -> AsyncIterator[DovecotLogin]:
    """Run a service that sends these two answers and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(greeting)
        await reader.readline()
        await reader.readline()
        writer.write(reply)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield DovecotLogin(path)


DONE = b"VERSION\t1\t2\nMECH\tPLAIN\nDONE\n"


@pytest.mark.parametrize(
    ("greeting", "reply"),
    [
        (b"VERSION\t2\t0\nDONE\n", b""),
        (b"MECH\tPLAIN\n" * 200, b""),
        (DONE, b""),
        (DONE, b"OK\t2\tuser=ann\n"),
        (DONE, b"OK\t1\tuser=\n"),
        (DONE, b"CONT\t1\t\n"),
        (DONE, b"FAIL\t1\tuser=ann\tcode=temp_fail\n"),
        (DONE, b"x" * 10_000),
    ],
)
async def test_what_is_no_answer_lets_nobody_in(tmp_path: Path, greeting: bytes, reply: bytes) -> None:
    async with answering(tmp_path / "auth", greeting, reply) as server:
        with pytest.raises(LoginUnavailable):
            await server.find_user("ann", "secret", None)


def test_the_response_is_the_last_field_and_no_name_can_add_one() -> None:
    request = auth_request("a\tb\nc", "p\tq", "192.0.2.1")
    assert request.count(b"\n") == 1
    fields = request.split(b"\t")
    assert fields[-2:] == [b"rip=192.0.2.1", b"resp=AGEJYgpjAHAJcQ==\n"]


def page_settings(**values: object) -> UserPageSettings:
    return UserPageSettings.model_validate({"users": ["*@example.org", "*@b.example"], **values})


@pytest.mark.parametrize(
    ("user", "address"),
    [
        ("ann@example.org", "ann@example.org"),
        ("Ann@Example.ORG", "ann@example.org"),
        ("ann", None),
        ("ann+list@example.org", None),
        ("ann@evil.example", None),
        ("@example.org", None),
        ("ann @example.org", None),
        ("ann\n@example.org", None),
        ("<ann>@example.org", None),
    ],
)
def test_the_address_of_a_user(user: str, address: str | None) -> None:
    assert page_settings().address_of(user, None) == address


@pytest.mark.parametrize(
    ("login", "server"),
    [
        (None, type(None)),
        ("dovecot:/run/dovecot/auth-client", DovecotLogin),
        ("imaps://imap.example.org:993", ImapLogin),
        ("imap://[::1]:143", ImapLogin),
    ],
)
def test_the_login_of_the_settings(login: str | None, server: type) -> None:
    made = make_login_server(page_settings(login=login))
    assert type(made) is server
    if made:
        made.close()


@pytest.mark.parametrize(
    "login", ["dovecot:", "dovecot:auth", "imaps://x", "imaps://x:0", "imap:x:1", "ldap://x:1", 7, "imaps://u@x:1"]
)
def test_another_login_is_refused(login: object) -> None:
    with pytest.raises(ValueError, match="must be dovecot:/PATH, imaps://HOST:PORT or imap://HOST:PORT"):
        page_settings(login=login)
