"""The HTTP listener: metrics, health, access and limits."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from redis.asyncio import Redis

from nbstream.delivery import maildir
from nbstream.server.connections import Peer, Teachers
from nbstream.server.http.access import HttpAccess, PasswordCheck, Passwords, Role, offered_passwords
from nbstream.server.http.listener import (
    HealthStatus,
    HttpListener,
    Route,
    health_routes,
    last_segment,
    metrics_route,
)
from nbstream.server.http.responses import ApiResponse
from nbstream.web.forms import FORM_TYPE
from tests.harness.http_listener import PRIZE, free_socket, open_http

WRONG = {"Password": "wrong"}
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
NOBODY = ()


def with_passwords(*passwords: str) -> PasswordCheck:
    return PasswordCheck(Passwords(*passwords))


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


def one() -> bytes:
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
    texts = count(1)
    route = metrics_route(lambda: b"%d\n" % next(texts))

    async def scrape() -> bytes:
        response = await route.handler(make_mocked_request("GET", "/metrics"))
        assert isinstance(response, ApiResponse)
        return response.body

    assert await asyncio.gather(*(scrape() for _ in range(20))) == [b"1\n"] * 20
    assert await scrape() == b"2\n"


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
        maildir.create_maildir(tmp_path / folder)
        assert (await http.ask("/readyz")).json == {"ready": True, "degraded": {}}
        monkeypatch.setattr(os, "statvfs", statvfs)

        answer = await http.ask("/readyz")

        assert answer.status == (200 if ready else 503)
        assert answer.json == {"ready": ready, "degraded": {part: "no space left for mail"}}


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
    access = HttpAccess(with_passwords("secret", "teaching"), NOBODY, lambda: Teachers(LOOPBACK))
    async with serving([metrics_route(one), *health_routes(healthy)], access) as url:
        assert (await get(f"{url}/metrics", **headers))[0] == code
        assert (await get(f"{url}/healthz", **headers))[0] == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("connection", ["", "Connection: close\r\n", "Connection: keep-alive\r\n"])
async def test_an_answer_has_the_very_bytes_that_aiohttp_would_send(
    method: str, version: str, connection: str
) -> None:
    async def own(request: web.BaseRequest) -> web.StreamResponse:
        return allowing(ApiResponse(b"x" * 100_000, "text/plain; charset=utf-8", 208), request)

    async def of_aiohttp(request: web.BaseRequest) -> web.StreamResponse:
        return allowing(web.Response(text="x" * 100_000, status=208), request)

    def allowing(answer: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
        answer.headers["Allow"] = "GET"
        if request.query:
            answer.force_close()
        return answer

    async def sent(where: str, path: str) -> bytes:
        reader, writer = await asyncio.open_connection(*where.removeprefix("http://").split(":"))
        writer.write(f"{method} {path} HTTP/{version}\r\nHost: x\r\n{connection}\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(0 if method == "HEAD" else 100_000)
        with suppress(ConnectionError):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer += await reader.read()  # where the connection was kept
        writer.close()
        return re.sub(rb"(?m)^Date: \w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\r$", b"Date", answer)

    handlers = {"/own": own, "/aiohttp": of_aiohttp}
    routes = [Route(verb, path, handlers[path]) for verb in ("GET", "POST") for path in handlers]
    async with serving([*routes, *health_routes(healthy)]) as url:
        for query in ("", "?close"):
            answers = await sent(url, f"/own{query}")

            assert answers.startswith(f"HTTP/{version} 208 Already Reported\r\n".encode())
            assert answers == await sent(url, f"/aiohttp{query}")


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


Fields = list[tuple[str, str]]


@pytest.mark.parametrize(
    ("peer", "fields", "role"),
    [
        ("127.0.0.1", [], Role.TEACH),
        ("::ffff:127.0.0.1", [], Role.TEACH),
        ("192.0.2.1", [], Role.READ),
        ("198.51.100.1", [], None),
        ("198.51.100.1", [("Password", "write")], None),
        (None, [], Role.TEACH),
        ("127.0.0.1", [("X-Forwarded-For", "127.0.0.2")], Role.TEACH),
        ("127.0.0.1", [("X-Forwarded-For", "198.51.100.1")], None),
        ("127.0.0.1", [("X-Forwarded-For", "127.0.0.1, 198.51.100.1")], None),
        ("127.0.0.1", [("x-real-ip", "198.51.100.1")], None),
        ("127.0.0.1", [("X-Real-IP", "somebody")], None),
        ("127.0.0.1", [("Forwarded", "for=127.0.0.1")], None),
        (None, [("X-Forwarded-For", "198.51.100.1")], None),
        ("", [], None),
        ("127.0.0.1", [("Host", "127.0.0.1:11334")], Role.TEACH),
        ("127.0.0.1", [("Host", "[::1]:11334")], Role.TEACH),
        ("127.0.0.1", [("Host", "localhost:11334")], Role.TEACH),
        ("127.0.0.1", [("Host", "mail")], Role.TEACH),
        ("127.0.0.1", [("Host", "page.example:11334")], None),
        ("::1", [("host", "page.example.")], None),
        ("192.0.2.1", [("Host", "filter.example")], Role.READ),
        (None, [("Host", "filter.example")], Role.TEACH),
    ],
)
def test_what_a_peer_may_do_without_a_password(peer: str | None, fields: Fields, role: Role | None) -> None:
    allowed = (*LOOPBACK, ipaddress.ip_network("192.0.2.0/24"))
    access = HttpAccess(with_passwords("read", "write"), allowed, lambda: Teachers(LOOPBACK))

    assert access.role_without_password(Peer(peer), fields) is role


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ([], set()),
        ([("password", "a"), ("Password", "a")], {"a"}),
        ([("Password", "a"), ("Password", "b"), ("Authorization", "Bearer c")], {"a", "b", "c"}),
        ([("Authorization", "Basic a")], set()),  # a proxy has its own
        ([("Password", "")], {""}),
    ],
)
def test_the_passwords_that_a_request_offers(fields: Fields, offered: set[str]) -> None:
    assert offered_passwords(fields) == offered


async def test_ten_wrong_passwords_a_minute_are_compared_and_who_needs_none_is_not_concerned() -> None:
    # The peer is on this machine: it needs a password where somebody forwards a request, but not for itself.
    stranger = {"X-Forwarded-For": "198.51.100.1"}
    access = HttpAccess(with_passwords("secret", "teaching"), LOOPBACK)
    async with serving([metrics_route(one)], access) as url, aiohttp.ClientSession() as session:
        assert [(await get(f"{url}/metrics", **WRONG, **stranger))[0] for _ in range(11)] == [401] * 10 + [429]
        right = {"Authorization": "Bearer secret", **stranger}
        async with session.get(f"{url}/metrics", headers=right) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
        assert (await get(f"{url}/metrics", **stranger))[0] == 401  # it offers none

        assert (await get(f"{url}/metrics", **WRONG))[0] == 200
        assert (await get(f"{url}/metrics", Password="secret", Host="page.example"))[0] == 200


async def test_the_apis_and_the_login_of_the_page_count_wrong_passwords_together(
    client: Redis, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret")

    def change(values: dict[str, Any]) -> None:
        values["listeners"]["http"] |= {"password_file": str(secret), "allow_from": []}

    async with open_http(client, tmp_path, change=change) as http:
        form = {"Content_Type": FORM_TYPE, "Origin": http.url}
        for _ in range(3):
            assert (await http.ask("/v1/model", Password="a guess")).status == 401
            assert (await http.ask("/stat", Authorization="Bearer a guess")).status == 401
            assert (await http.ask("/ui/login", b"password=a+guess", **form)).status == 403
        assert (await http.ask("/ui/login", b"password=secret", **form)).status == 200
        assert (await http.ask("/v1/learn?label=spam", PRIZE, Password="a guess")).status == 401
        assert [
            (await http.ask("/v1/model", Password="secret")).status,
            (await http.ask("/checkv2", PRIZE, Password="secret")).status,
            (await http.ask("/ui/login", b"password=secret", **form)).status,
        ] == [429] * 3
