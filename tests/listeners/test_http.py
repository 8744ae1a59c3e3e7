"""The HTTP door: metrics, health, and who may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from nbstream.listeners.http import Health, HttpListener


@asynccontextmanager
async def serving(listener: HttpListener) -> AsyncIterator[str]:
    host, port = await listener.start("127.0.0.1", 0)
    try:
        yield f"http://{host}:{port}"
    finally:
        await listener.close()


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.text()


async def healthy() -> Health:
    return Health(True, {})


async def degraded() -> Health:
    return Health(False, {"next_hop": "cannot be reached"})


async def test_metrics_and_health_are_served() -> None:
    async with serving(HttpListener(lambda: b"nbstream_x 1\n", healthy)) as url:
        assert await get(f"{url}/metrics") == (200, "nbstream_x 1\n")
        assert await get(f"{url}/healthz") == (200, "ok\n")
        assert await get(f"{url}/readyz") == (200, '{"ready": true, "degraded": {}}')
        assert (await get(f"{url}/"))[0] == 404


async def test_what_is_degraded_is_said() -> None:
    async with serving(HttpListener(lambda: b"", degraded)) as url:
        assert await get(f"{url}/readyz") == (
            503,
            '{"ready": false, "degraded": {"next_hop": "cannot be reached"}}',
        )


async def test_a_door_for_metrics_has_nothing_else() -> None:
    async with serving(HttpListener(lambda: b"x 1\n", None)) as url:
        assert (await get(f"{url}/metrics"))[0] == 200
        assert (await get(f"{url}/readyz"))[0] == 404


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 401),
        ({"Password": "wrong"}, 401),
        ({"Password": "secret"}, 200),
        ({"Authorization": "Bearer secret"}, 200),
    ],
)
async def test_another_machine_needs_the_password(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], code: int
) -> None:
    # Loopback needs none, and a test talks to loopback only: so the peer's address is made another one.
    monkeypatch.setattr("aiohttp.web.BaseRequest.remote", "192.0.2.1")
    async with serving(HttpListener(lambda: b"x 1\n", healthy, "secret")) as url:
        assert (await get(f"{url}/metrics", **headers))[0] == code
        assert (await get(f"{url}/healthz", **headers))[0] == 200
