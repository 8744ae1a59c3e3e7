"""The checks of the listeners, the next hop and the login server."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.daemon.config import load_settings
from nbstream.daemon.listeners import LISTENERS
from nbstream.daemon.status import DaemonStatus, ask_daemon_status
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.doctor import connections
from nbstream.doctor.connections import (
    examine_in_redis,
    examine_listeners,
    examine_login_server,
    examine_next_hop,
    probe_listener,
)
from nbstream.doctor.examination import Site
from nbstream.findings import Finding
from nbstream.listeners import http, stream
from nbstream.listeners.milter import probe_milter
from nbstream.listeners.smtp import probe_smtp
from nbstream.listeners.smtp.settings import TlsMode
from nbstream.listeners.stream import STREAM
from nbstream.server import probe
from nbstream.server.listener import ListenerEntry
from nbstream.server.probe import Conversation
from nbstream.store.model.keys import ModelKeys
from tests.harness.daemon import DaemonProcess, free_port
from tests.harness.examined_sites import kind_names, make_site, the, wrong
from tests.harness.redis.access import Certificates
from tests.harness.redis.redis_server import RedisServer
from tests.harness.smtp_listener import Way, open_smtp_listener
from tests.harness.user_site import PasswordTable
from tests.harness.waiting import until

RUNNING = DaemonStatus(os.getpid())
OTHER: ListenerEntry[Any, Any] = ListenerEntry("other", lambda *_: pytest.fail("it is not made"))
ENTRIES = {entry.name: entry for entry in (*LISTENERS, OTHER)}


@asynccontextmanager
async def server(path: Path, *answers: bytes) -> AsyncIterator[UnixAddress]:
    """A server that sends the first answer at once, and each further one when something came."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[0])
        for answer in answers[1:]:
            if await reader.read(1 << 16):
                writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield UnixAddress(path)


async def test_all_listeners_of_a_running_daemon_answer(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    file = tmp_path / "nbstream.yaml"
    ports = [free_port() for _ in range(2)]
    file.write_text(
        f"""\
state_dir: {tmp_path}/state
redis: {{url: '{shared_redis.url}'}}
model: {{name: doctor-listeners}}
listeners:
  smtp: {{listen: "127.0.0.1:{ports[0]}"}}
  http: {{listen: "unix:{tmp_path}/http.sock"}}
  metrics: {{listen: "127.0.0.1:{ports[1]}"}}
  spamd: {{listen: "unix:{tmp_path}/spamd.sock"}}
  stream: {{}}
log: {{format: json}}
"""
    )
    with DaemonProcess(file):

        async def is_read() -> bool:
            return bool(await client.exists(ModelKeys("doctor-listeners").incoming))

        await until(is_read)  # the group is made beside the start
        settings = load_settings(file)
        found = await examine_listeners(Site(settings, ask_daemon_status(settings.state_dir)))

    assert wrong(found) == []
    assert [finding.check for finding in found] == [
        f"listener.{name}" for name in ("smtp", "http", "spamd", "stream", "metrics")
    ]
    assert kind_names(found) == {"probe.WORKS", "stream.STREAM_READ"}


async def test_a_listener_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    found = await examine_listeners(
        make_site(tmp_path, f"listeners: {{smtp: {{listen: '{address}'}}, http: null}}\n", RUNNING)
    )

    assert address in the(found, connections.UNREACHABLE).what


@pytest.mark.parametrize(
    ("name", "answers", "kind"),
    [
        ("smtp", [b"220 mx ESMTP\r\n", b"250-mx\r\n250 SIZE\r\n", b"221 bye\r\n"], probe.WORKS),
        ("smtp", [b"421 4.3.2 Too many connections\r\n"], probe.BUSY),
        ("smtp", [b"220 mx\r\n", b"502 no\r\n", b"221 bye\r\n"], probe.WRONG_ANSWER),
        ("smtp", [b"SSH-2.0-OpenSSH_9\r\n"], probe.WRONG_ANSWER),
        ("smtp", [b""], connections.UNREACHABLE),
        ("smtp", [b"x" * 100_000], connections.UNREACHABLE),
        ("http", [b"", b"HTTP/1.1 404 Not Found\r\n\r\n"], probe.WRONG_ANSWER),
        ("http", [b"", b"HTTP/1.1 200 OK\r\n\r\n[]"], probe.WRONG_ANSWER),
        ("http", [b"", b"220 mx ESMTP\r\n"], probe.WRONG_ANSWER),
        ("metrics", [b"", b"HTTP/1.1 200 OK\r\n\r\nother_total 1\n"], probe.WRONG_ANSWER),
        ("spamd", [b"", b"SPAMD/1.5 76 Bad header line\r\n"], probe.WRONG_ANSWER),
        ("other", [b""], probe.WORKS),
    ],
)
async def test_answers(tmp_path: Path, name: str, answers: list[bytes], kind: Finding) -> None:
    async with server(tmp_path / "s", *answers) as address:
        found = await probe_listener(ENTRIES[name], address)

    assert the(found, kind).check == f"listener.{name}"


async def test_what_a_daemon_says_of_itself_is_passed_on(tmp_path: Path) -> None:
    degraded = {"redis": "not followed, no counts are loaded; feedback is deferred"}
    body = json.dumps({"ready": False, "degraded": degraded}).encode()
    async with server(tmp_path / "s", b"", b"HTTP/1.1 503 Service Unavailable\r\n\r\n" + body) as address:
        found = await probe_listener(ENTRIES["http"], address)

    the(found, http.NOT_READY)
    assert degraded["redis"] in the(found, http.DEGRADED).what


@pytest.mark.parametrize("way", Way)
async def test_smtp_and_lmtp_are_asked_on_every_way(
    client: Redis, tmp_path: Path, program: Callable[[str], str], way: Way
) -> None:
    certificates = Certificates.make(program("openssl"), tmp_path) if way.tls is not TlsMode.OFF else None
    async with open_smtp_listener(client, tmp_path / "m", way=way, certificates=certificates) as smtp:
        address = UnixAddress(smtp.socket_path) if smtp.socket_path else TcpAddress(smtp.host, smtp.port)
        found = await probe_listener(ENTRIES[way.listener_name], address, way.tls is TlsMode.IMPLICIT)

    assert ("STARTTLS" in the(found, probe.WORKS).what) == (way.tls in {TlsMode.MAY, TlsMode.REQUIRE})


async def test_an_lmtp_server_is_greeted_as_one(tmp_path: Path) -> None:
    async with server(tmp_path / "s", b"220 mx LMTP\r\n", b"250 mx\r\n", b"221 bye\r\n") as address:
        reader, writer = await connections.connect(address)
        found = await probe_smtp("LHLO", Conversation("lmtp", address, reader, writer))
        writer.close()

    assert "LHLO" in the(found, probe.WORKS).what


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (struct.pack("!IcIII", 13, b"O", 6, 1, 2), probe.WORKS),
        (struct.pack("!Ic", 1, b"r"), probe.WRONG_ANSWER),
        (b"220 mx.example.org ESMTP\r\n", probe.WRONG_ANSWER),
    ],
)
async def test_a_milter_negotiates(tmp_path: Path, answer: bytes, kind: Finding) -> None:
    async with server(tmp_path / "s", b"", answer) as address:
        reader, writer = await connections.connect(address)
        found: list[Finding] = list(await probe_milter(Conversation("milter", address, reader, writer)))
        writer.close()

    the(found, kind)


async def test_a_listener_at_all_addresses_is_asked_at_loopback() -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        found = await probe_listener(ENTRIES["other"], TcpAddress("0.0.0.0", port))

    the(found, probe.WORKS)


async def test_entries_of_the_stream_that_were_given_up(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    keys = ModelKeys("doctor-stream")
    site = make_site(tmp_path, f"redis: {{url: '{shared_redis.url}'}}\nmodel: {{name: doctor-stream}}\n")

    the(await examine_in_redis(STREAM, site), stream.STREAM_MISSING)
    await client.xgroup_create(keys.incoming, "nbstream", mkstream=True)
    await client.xadd(keys.dead_letters, {"raw": "x"})
    assert keys.dead_letters in the(await examine_in_redis(STREAM, site), stream.DEAD_LETTERS).what


async def test_why_a_server_cannot_be_used_is_said(tmp_path: Path) -> None:
    found = await examine_next_hop(make_site(tmp_path, f"relay: {{next_hop: 'lmtp:unix:{tmp_path}/lmtp'}}\n"))

    assert "cannot be reached (No such file or directory)" in the(found, connections.AWAY).what


async def test_a_server_that_says_nothing_is_away_and_no_check_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"relay: {{next_hop: 'lmtp:unix:{tmp_path}/lmtp'}}\n"
    monkeypatch.setattr(connections, "_SECONDS", 0.2)
    monkeypatch.setattr(SmtpNextHop, "connect_seconds", 0.2)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{tmp_path}/lmtp")
        listening.listen()
        assert (
            "cannot be reached." in the(await examine_next_hop(make_site(tmp_path, text)), connections.AWAY).what
        )


async def test_a_login_server_that_answers_is_told_and_gets_no_password(tmp_path: Path) -> None:
    async with PasswordTable(tmp_path / "auth", {}).running() as table:
        site = make_site(tmp_path, f"user_page: {{users: ['*@example.org'], login: 'dovecot:{table.path}'}}\n")
        assert the(await examine_login_server(site), connections.LOGIN_READY)
    assert table.asked == []


async def test_a_login_server_that_is_away_is_a_problem(tmp_path: Path) -> None:
    for login in ("dovecot:/nonexistent/auth-client", "imaps://127.0.0.1:1", "imap://127.0.0.1:1"):
        site = make_site(tmp_path, f"user_page: {{users: ['*@example.org'], login: '{login}'}}\n")
        assert "nonexistent" not in the(await examine_login_server(site), connections.LOGIN_AWAY).what
