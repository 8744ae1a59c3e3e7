"""The HTTP listener: metrics, health, access and limits."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from redis.asyncio import Redis

from nbstream.listeners.http.access import HttpAccess
from nbstream.listeners.http.listener import (
    HealthStatus,
    HttpListener,
    Route,
    health_routes,
    metrics_route,
)
from nbstream.listeners.http.route_table import last_segment
from nbstream.listeners.peers import Peer
from nbstream.listeners.teachers import Teachers
from nbstream.relay import maildir_files
from tests.listeners.http.http_listener import free_socket, open_http

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
NOBODY = ()


@asynccontextmanager
async def serving(routes: Iterable[Route], access: HttpAccess | None = None) -> AsyncIterator[str]:
    listener = HttpListener(routes, access)
    socket, where = free_socket()
    await listener.start(socket)
    try:
        yield f"http://{where}"
    finally:
        await listener.drain(0)


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.text()


async def healthy() -> HealthStatus:
    return HealthStatus(True, {})


async def one() -> bytes:
    return b"nbstream_x 1\n"


async def degraded() -> HealthStatus:
    return HealthStatus(False, {"next_hop": "cannot be reached"})


async def test_metrics_and_health_are_served() -> None:
    async with serving([metrics_route(one), *health_routes(healthy)]) as url:
        assert await get(f"{url}/metrics") == (200, "nbstream_x 1\n")
        assert await get(f"{url}/healthz") == (200, "ok\n")
        async with aiohttp.ClientSession() as session, session.head(f"{url}/healthz") as response:
            assert response.status == 200
        assert await get(f"{url}/readyz") == (200, '{"ready":true,"degraded":{}}')
        assert (await get(f"{url}/"))[0] == 404


async def test_scrapes_at_the_same_time_share_one_text_which_is_newer_than_all_of_them() -> None:
    texts, begun, may_end = 0, asyncio.Event(), asyncio.Event()

    async def count() -> bytes:
        nonlocal texts
        texts += 1
        number = texts
        begun.set()
        await may_end.wait()
        return b"%d\n" % number

    async def scrape() -> bytes:
        response = await metrics_route_of_all.handler(make_mocked_request("GET", "/metrics"))
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        return response.body

    metrics_route_of_all = metrics_route(count)
    first = asyncio.create_task(scrape())
    await begun.wait()
    later = asyncio.gather(*(scrape() for _ in range(20)))
    may_end.set()

    assert await first == b"1\n"
    assert await later == [b"2\n"] * 20


async def test_a_scraper_that_leaves_takes_the_text_of_nobody_else() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> bytes:
        begun.set()
        await may_end.wait()
        return b"x 1\n"

    async with serving([metrics_route(wait)]) as url:
        leaving = asyncio.create_task(get(f"{url}/metrics"))
        await begun.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        may_end.set()

        assert await get(f"{url}/metrics") == (200, "x 1\n")


async def test_what_is_degraded_is_said() -> None:
    async with serving(health_routes(degraded)) as url:
        assert await get(f"{url}/readyz") == (
            503,
            '{"ready":false,"degraded":{"next_hop":"cannot be reached"}}',
        )


@pytest.mark.parametrize(
    ("folder", "part", "ready"), [("Maildir", "next_hop", False), ("Quarantine", "quarantine", True)]
)
async def test_a_full_disk_is_said_without_its_path(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, part: str, ready: bool
) -> None:
    real = os.statvfs(tmp_path)

    def statvfs(path: Path) -> os.statvfs_result:
        return os.statvfs_result([0 if path.name == folder and i == 4 else real[i] for i in range(10)])

    async with open_http(client, tmp_path) as http:
        maildir_files.create_maildir(tmp_path / folder)
        assert (await http.ask("/readyz")).json == {"ready": True, "degraded": {}}
        monkeypatch.setattr(os, "statvfs", statvfs)

        answer = await http.ask("/readyz")

        assert answer.status == (200 if ready else 503)
        assert answer.json == {"ready": ready, "degraded": {part: "no space is left for mail"}}


async def test_a_metrics_listener_serves_nothing_else() -> None:
    async with serving([metrics_route(one)]) as url:
        assert (await get(f"{url}/metrics"))[0] == 200
        assert (await get(f"{url}/readyz"))[0] == 404


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 401),
        ({"Password": "wrong"}, 401),
        ({"Password": "secret"}, 200),
        ({"Password": "teaching"}, 200),
        ({"Authorization": "Bearer secret"}, 200),
        ({"Authorization": "bearer  secret"}, 200),
        ({"Authorization": "Basic secret"}, 401),
        ({"Authorization": "secret"}, 401),
    ],
)
async def test_a_peer_that_is_not_allowed_needs_the_password(headers: dict[str, str], code: int) -> None:
    access = HttpAccess("secret", "teaching", NOBODY, lambda: Teachers(LOOPBACK))
    async with serving([metrics_route(one), *health_routes(healthy)], access) as url:
        assert (await get(f"{url}/metrics", **headers))[0] == code
        assert (await get(f"{url}/healthz", **headers))[0] == 200


@pytest.mark.parametrize(("headers", "password"), [({}, "none"), ({"Password": "guess"}, "wrong")])
async def test_a_refused_peer_is_logged_without_the_password_that_it_tried(
    headers: dict[str, str], password: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving([metrics_route(one)], HttpAccess("secret", None, NOBODY)) as url:
        assert (await get(f"{url}/metrics?x=1", **headers))[0] == 401
        assert (await get(f"{url}/metrics", Password="secret"))[0] == 200
    (refused,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert vars(refused)["fields"] == {"peer": "127.0.0.1", "path": "/metrics", "password": password}
    assert "guess" not in caplog.text


async def test_each_request_of_a_connection_is_judged_by_its_own_fields() -> None:
    requests = [({}, 200), ({}, 200), ({"X-Forwarded-For": "198.51.100.1"}, 401), ({"Host": "page.example"}, 401)]
    async with (
        serving([metrics_route(one)], HttpAccess("secret", None, LOOPBACK)) as url,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session,
    ):
        for headers, code in [*requests, ({"Password": "secret", **requests[-1][0]}, 200), *requests]:
            async with session.get(f"{url}/metrics", headers=headers) as response:
                assert response.status == code


async def test_the_routes_are_found_by_path_and_method() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=last_segment(request))

    routes = [Route("GET", "/things/{id}", answer), Route("POST", "/things", answer)]
    async with serving(routes) as url:
        assert await get(f"{url}/things/a%20b?x=1") == (200, "a b")
        for path in ("/things/", "/things/a/b", "/things/a%2Fb", "/other/a", "//things/a", "/"):
            assert (await get(f"{url}{path}"))[0] == 404
        async with aiohttp.ClientSession() as session, session.put(f"{url}/things/a") as response:
            assert (response.status, response.headers["Allow"]) == (405, "GET,HEAD")
        assert (await get(f"{url}/things"))[0] == 405


async def test_an_expectation_that_is_none_is_refused() -> None:
    async with serving([metrics_route(one)]) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/metrics", headers={"Expect": "a-miracle"}) as response:
            assert response.status == 417
        async with session.get(f"{url}/metrics") as response:
            assert response.status == 200


Fields = list[tuple[str, str]]


@pytest.mark.parametrize(
    ("peer", "fields", "reads", "teaches"),
    [
        ("127.0.0.1", [], True, True),
        ("::ffff:127.0.0.1", [], True, True),
        ("192.0.2.1", [], True, False),
        ("198.51.100.1", [], False, False),
        ("198.51.100.1", [("password", "read")], True, False),
        ("198.51.100.1", [("Password", "write")], True, True),
        ("198.51.100.1", [("Password", "wrong"), ("Password", "write")], True, True),
        ("192.0.2.1", [("Authorization", "Bearer write")], True, True),
        (None, [], True, True),
        ("127.0.0.1", [("X-Forwarded-For", "127.0.0.2")], True, True),
        ("127.0.0.1", [("X-Forwarded-For", "198.51.100.1")], False, False),
        ("127.0.0.1", [("X-Forwarded-For", "127.0.0.1, 198.51.100.1")], False, False),
        ("127.0.0.1", [("x-real-ip", "198.51.100.1")], False, False),
        ("127.0.0.1", [("X-Real-IP", "somebody")], False, False),
        ("127.0.0.1", [("Forwarded", "for=127.0.0.1")], False, False),
        (None, [("X-Forwarded-For", "198.51.100.1")], False, False),
        (None, [("X-Forwarded-For", "198.51.100.1"), ("Password", "write")], True, True),
        ("", [], False, False),
        ("127.0.0.1", [("Host", "127.0.0.1:11334")], True, True),
        ("127.0.0.1", [("Host", "[::1]:11334")], True, True),
        ("127.0.0.1", [("Host", "localhost:11334")], True, True),
        ("127.0.0.1", [("Host", "mail")], True, True),
        ("127.0.0.1", [("Host", "page.example:11334")], False, False),
        ("::1", [("host", "page.example.")], False, False),
        ("127.0.0.1", [("Host", "filter.example"), ("Password", "write")], True, True),
        ("192.0.2.1", [("Host", "filter.example")], True, False),
        (None, [("Host", "filter.example")], True, True),
    ],
)
def test_who_may_read_and_who_may_teach(peer: str | None, fields: Fields, reads: bool, teaches: bool) -> None:
    allowed = (*LOOPBACK, ipaddress.ip_network("192.0.2.0/24"))
    access = HttpAccess("read", "write", allowed, lambda: Teachers(LOOPBACK))

    assert access.may_read(Peer(peer), fields) is reads
    assert access.may_teach(Peer(peer), fields) is teaches


def test_one_password_opens_both_levels_where_there_is_no_other() -> None:
    assert HttpAccess("only").may_teach(Peer("192.0.2.1"), [("Password", "only")])
    assert not HttpAccess(None).may_teach(Peer("192.0.2.1"), [("Password", "")])
    assert not HttpAccess(None).may_read(Peer("192.0.2.1"), [("Password", "None")])
