"""The canary: sent through a running daemon, and refused on its way."""

from __future__ import annotations

import asyncio
import json
import os
import smtplib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from nbstream.addresses import TcpAddress
from nbstream.cli.main import main
from nbstream.daemon.status import DaemonStatus
from nbstream.doctor import canary
from nbstream.doctor.canary import find_routes, send_canary
from nbstream.doctor.examination import Site
from tests.harness.daemon import DaemonProcess, free_port
from tests.harness.examined_sites import make_site, the
from tests.harness.redis.redis_server import RedisServer

CONFIG = """\
state_dir: {folder}/state
redis: {{url: '{url}'}}
model: {{name: canary, min_learned: 0}}
listeners: {{{listeners}, http: {{listen: "127.0.0.1:0"}}}}
autolearn: {{ham: 0.4}}
actions: {{spam: reject}}
log: {{format: json}}
"""
TRACES = (
    "nbstream_score_probability_count",
    'nbstream_actions_total{action="pass"}',
    'nbstream_actions_total{action="reject"}',
)
RUNNING = DaemonStatus(os.getpid())
NOWHERE = TcpAddress("127.0.0.1", 1)
ADDRESS = "ann@example.org"


@pytest.fixture(autouse=True)
def _no_mail_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have one, which would send the message on."""
    monkeypatch.setattr(canary, "MAIL_SERVER", NOWHERE)


@asynccontextmanager
async def smtp_server(*replies: bytes) -> AsyncIterator[int]:
    """A server that gives these replies, one for each command; the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number, reply in enumerate(replies):
            if number:
                data = await reader.readline()
                if replies[number - 1].startswith(b"354"):
                    while data and data != b".\r\n":
                        data = await reader.readline()
            writer.write(reply)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def the_canary(report: str) -> dict[str, str]:
    found = [finding for finding in json.loads(report)["findings"] if finding["check"] == "canary"]
    assert len(found) == 2, found  # no mail server answers
    return dict(found[0])


def examined(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    main(["doctor", "-c", str(file), "--json", "--canary", ADDRESS])
    return capsys.readouterr().out


def write_config(folder: Path, server: RedisServer, listeners: str, workers: int = 1) -> Path:
    file = folder / "nbstream.yaml"
    text = CONFIG.format(folder=folder, url=server.url, listeners=listeners)
    file.write_text(f"{text}workers: {workers}\n")
    return file


@pytest.mark.parametrize(
    ("workers", "listener", "client"),
    [(1, "smtp", smtplib.SMTP), (2, "lmtp", smtplib.LMTP)],
)
def test_a_canary_is_delivered_as_spam_and_leaves_no_trace(
    own_redis: RedisServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    workers: int,
    listener: str,
    client: type[smtplib.SMTP],
) -> None:
    port = free_port()
    others = "" if listener == "smtp" else "smtp: null, "
    file = write_config(tmp_path, own_redis, f"{others}{listener}: {{listen: '127.0.0.1:{port}'}}", workers)
    maildir = tmp_path / "state" / "Maildir" / "new"
    counted = f'nbstream_messages_total{{listener="{listener}",verdict="canary"}}'

    with DaemonProcess(file) as daemon:
        finding = the_canary(examined(file, capsys))
        (delivered,) = maildir.iterdir()
        raw = delivered.read_bytes()
        figures = [daemon.metric(name) for name in (counted, *TRACES)]
        with client("127.0.0.1", port) as stranger:  # who has seen it
            stranger.sendmail("", [ADDRESS], raw)
        later_figures = [daemon.metric(name) for name in (counted, *TRACES)]
        daemon.stop()

    assert finding["severity"] == "ok", finding
    assert ADDRESS in finding["what"]
    assert b"X-Spam-Flag: YES" in raw
    assert b'reason="canary of nbstream doctor"' in raw
    assert figures == [1, 0, 0, 0]
    assert later_figures == [1, 1, 1, 0]  # by then it is a message like any other
    assert list((tmp_path / "state" / "canaries").iterdir()) == []


def test_a_canary_is_neither_remembered_nor_learned(
    own_redis: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_config(tmp_path, own_redis, f"smtp: {{listen: '127.0.0.1:{free_port()}'}}")

    with DaemonProcess(file) as daemon:
        finding = the_canary(examined(file, capsys))
        daemon.stop()  # which writes what is to be remembered

    assert finding["severity"] == "ok", finding
    with Redis(unix_socket_path=str(own_redis.socket)) as client:
        assert [key for key in client.scan_iter("nbstream:*") if b":schema" not in key] == []


def site_of(folder: Path, port: int, text: str = "") -> Site:
    return make_site(folder, f"listeners: {{smtp: {{listen: '127.0.0.1:{port}'}}, http: null}}\n{text}", RUNNING)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path


async def test_a_server_that_does_not_know_the_canary_does_not_check_it(folder: Path) -> None:
    replies = (b"220 mx\r\n", b"250 mx\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n", b"250 ok\r\n")
    async with smtp_server(*replies) as port:
        found = await send_canary(site_of(folder, port), ADDRESS)

    the(found, canary.NOT_CHECKED)
    assert list((folder / "state" / "canaries").iterdir()) == []


async def test_a_recipient_that_the_next_hop_refuses(folder: Path) -> None:
    async with smtp_server(
        b"220 mx\r\n", b"250-mx\r\n250 SIZE\r\n", b"250 ok\r\n", b"550 5.1.1 unknown\r\n"
    ) as port:
        found = await send_canary(site_of(folder, port), ADDRESS)

    assert "RCPT: 550 5.1.1 unknown" in the(found, canary.REFUSED).what
    assert list((folder / "state" / "canaries").iterdir()) == []


async def test_a_listener_that_is_not_there(folder: Path) -> None:
    the(await send_canary(site_of(folder, free_port()), ADDRESS), canary.NOT_SENT)


@pytest.mark.parametrize("address", ["spam@nbstream.invalid", "HAM@nbstream.invalid"])
async def test_a_feedback_address_would_learn_it(folder: Path, address: str) -> None:
    the(await send_canary(site_of(folder, 1), address), canary.FEEDBACK_ADDRESS)


async def test_a_state_folder_that_does_not_exist_cannot_announce_it(tmp_path: Path) -> None:
    the(await send_canary(site_of(tmp_path, 1), ADDRESS), canary.NOT_ANNOUNCED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_root_does_not_write_into_the_folder_of_another_user(folder: Path) -> None:
    stranger = 65534
    os.chown(folder / "state", stranger, stranger)
    site = replace(site_of(folder, 1), daemon=DaemonStatus(2**22))  # a process that has just ended

    assert "another user" in the(await send_canary(site, ADDRESS), canary.NOT_ANNOUNCED).what
    assert list((folder / "state").iterdir()) == []


@pytest.mark.parametrize(
    ("listeners", "routes"),
    [
        ("", ["EHLO 127.0.0.1:10025", "EHLO 127.0.0.1:1"]),
        ("smtp: {listen: '0.0.0.0:1'}", ["EHLO 0.0.0.0:1"]),  # it is the mail server itself
        ("smtp: null, lmtp: {listen: 'unix:/run/nb.sock'}", ["LHLO unix:/run/nb.sock", "EHLO 127.0.0.1:1"]),
        ("smtp: null, milter: {}", ["EHLO 127.0.0.1:1"]),
        ("smtp: null, spamd: {}", []),
    ],
)
def test_the_routes_of_mail_are_those_of_the_listeners(tmp_path: Path, listeners: str, routes: list[str]) -> None:
    found = find_routes(make_site(tmp_path, f"listeners: {{{listeners}}}\n"), NOWHERE)

    assert [f"{route.verb} {route}" for route in found] == routes


async def test_a_mail_server_that_is_not_there_matters_where_no_mail_comes_without_it(folder: Path) -> None:
    found = await send_canary(site_of(folder, free_port()), ADDRESS)
    the(found, canary.NO_MAIL_SERVER)

    found = await send_canary(make_site(folder, "listeners: {smtp: null, milter: {}}\n", RUNNING), ADDRESS)
    the(found, canary.NOT_SENT)
