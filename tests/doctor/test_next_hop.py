"""The servers beside nbstream: whether mail could leave, and whether users can log in."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.doctor import certificates, next_hop
from nbstream.doctor.next_hop import examine_login_server, examine_next_hop
from tests.doctor.sites import make_site, the
from tests.integration.daemon import free_port
from tests.listeners.smtp.smtp_listener import Way, open_smtp_listener
from tests.redis_servers.access import Certificates
from tests.user_page.site import PasswordTable


async def test_a_maildir_with_room_takes_mail(tmp_path: Path) -> None:
    the(await examine_next_hop(make_site(tmp_path)), next_hop.READY)


async def test_a_server_that_is_away_takes_none(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    found = await examine_next_hop(make_site(tmp_path, f"relay: {{next_hop: 'smtp://{address}'}}\n"))

    assert f"{address}: cannot be reached (" in the(found, next_hop.AWAY).what


async def test_why_a_server_cannot_be_used_is_said(tmp_path: Path) -> None:
    found = await examine_next_hop(make_site(tmp_path, f"relay: {{next_hop: 'lmtp:unix:{tmp_path}/lmtp'}}\n"))

    assert "cannot be reached (No such file or directory)" in the(found, next_hop.AWAY).what


async def test_a_server_that_says_nothing_is_away_and_no_check_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"relay: {{next_hop: 'lmtp:unix:{tmp_path}/lmtp', connect_timeout_seconds: 0.2}}\n"
    monkeypatch.setattr(next_hop, "_SECONDS", 0.2)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{tmp_path}/lmtp")
        listening.listen()
        assert "cannot be reached." in the(await examine_next_hop(make_site(tmp_path, text)), next_hop.AWAY).what


async def test_a_listener_that_only_answers_needs_no_next_hop(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder\n")  # no Maildir can be in it

    assert await examine_next_hop(make_site(tmp_path, "listeners: {milter: {}, smtp: null}\n")) == []


async def test_a_certificate_of_the_next_hop_that_expires_soon(
    client: Redis, tmp_path: Path, program: Callable[[str], str]
) -> None:
    files = Certificates.make(program("openssl"), tmp_path)
    async with open_smtp_listener(client, tmp_path / "m", way=Way.SMTP_STARTTLS, certificates=files) as smtp:
        text = f"relay: {{next_hop: 'smtp://{smtp.host}:{smtp.port}', %s}}\n"
        for tls in ("tls: encrypt", f"tls: verify, tls_ca_file: '{files.authority}'"):
            found = await examine_next_hop(make_site(tmp_path, text % tls))
            the(found, next_hop.READY)
            the(found, certificates.HOP_EXPIRES_SOON)


async def test_a_login_server_that_answers_is_told_and_gets_no_password(tmp_path: Path) -> None:
    async with PasswordTable(tmp_path / "auth", {}).running() as table:
        site = make_site(tmp_path, f"user_page: {{users: ['*@example.org'], login: 'dovecot:{table.path}'}}\n")
        assert the(await examine_login_server(site), next_hop.LOGIN_READY)
    assert table.asked == []


async def test_a_login_server_that_is_away_is_a_problem(tmp_path: Path) -> None:
    for login in ("dovecot:/nonexistent/auth-client", "imaps://127.0.0.1:1", "imap://127.0.0.1:1"):
        site = make_site(tmp_path, f"user_page: {{users: ['*@example.org'], login: '{login}'}}\n")
        assert "nonexistent" not in the(await examine_login_server(site), next_hop.LOGIN_AWAY).what


async def test_nothing_is_said_where_no_user_has_a_password(tmp_path: Path) -> None:
    for text in ("", "user_page: {users: ['*@example.org']}\n"):
        assert await examine_login_server(make_site(tmp_path, text)) == []
