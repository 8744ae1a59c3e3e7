"""The server of one process: its drain reaches every listener, whatever one of them does."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.assembly.listeners import ListenerEntry
from nbstream.assembly.store import RedisClients
from nbstream.config import Settings
from nbstream.daemon import server as server_module
from nbstream.daemon.server import Server
from nbstream.engine.choice import PYTHON
from nbstream.listeners.runtime import Runtime
from nbstream.listeners.teachers import Teachers
from nbstream.metrics.daemon import DaemonMetrics


class DrainedListener:
    """A listener without a socket that notes its drain, and then raises ``fault``."""

    def __init__(self, name: str, drained: list[str], fault: Exception | None) -> None:
        self._name = name
        self._drained = drained
        self._fault = fault

    async def start(self, *_: socket.socket) -> asyncio.Task[None] | None:
        return None

    def apply(self, runtime: Runtime) -> None: ...

    async def drain(self, seconds: float) -> None:
        self._drained.append(self._name)
        if self._fault:
            raise self._fault


def listener_entry(
    name: str, drained: list[str], fault: Exception | None = None, *, drains_last: bool = False
) -> ListenerEntry[Any]:
    return ListenerEntry(
        name,
        section=lambda _: True,
        make=lambda *_: DrainedListener(name, drained, fault),
        address=None,
        byte_limit=lambda _: 0,
        teachers=lambda _: Teachers(),
        counts_connections=False,
        drains_last=drains_last,
    )


async def test_a_drain_that_fails_is_logged_and_all_else_is_drained_and_closed(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drained: list[str] = []
    entries = (
        listener_entry("first", drained, RuntimeError("a fault of the first")),
        listener_entry("second", drained),
        listener_entry("last", drained, drains_last=True),
    )
    monkeypatch.setattr(server_module, "LISTENERS", entries)
    settings = Settings.model_validate(
        {"state_dir": str(tmp_path), "relay": {"next_hop": f"maildir:{tmp_path / 'Maildir'}"}}
    )
    server = Server(settings, PYTHON, DaemonMetrics.create(PYTHON))
    tasks_before = asyncio.all_tasks()

    with caplog.at_level(logging.ERROR):
        await server.run(RedisClients(client, client), dict, lambda _: server.stop())

    assert drained == ["first", "second", "last"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "the listener first was not drained: a fault of the first"
    assert record.exc_info
    assert asyncio.all_tasks() == tasks_before
