"""The server of one process: its drain reaches every listener, whatever one of them does."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.daemon import server as server_module
from nbstream.daemon.assembly.store import RedisClients
from nbstream.daemon.config import Settings
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server import Server
from nbstream.daemon.server_parts import ServerParts
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import QuarantineNote
from nbstream.engine.choice import PYTHON
from nbstream.policy.own_models.settings import OwnModelsSettings
from nbstream.server.listener import ListenerEntry
from nbstream.server.runtime import Runtime
from nbstream.settings.values import Section
from nbstream.store.model.model import Model
from tests.harness.filters import PRIZE
from tests.harness.waiting import until


class DrainedListener:
    """A listener without a socket that notes its drain, and then raises ``fault``."""

    def __init__(self, name: str, drained: list[str], fault: Exception | None) -> None:
        self._name = name
        self._drained = drained
        self._fault = fault

    async def start(self, *_: socket.socket) -> None: ...

    def apply(self, runtime: Runtime) -> None: ...

    async def drain(self, seconds: float) -> None:
        self._drained.append(self._name)
        if self._fault:
            raise self._fault


def make_server(settings: Settings, client: Redis) -> Server:
    return Server(ServerParts(settings, RedisClients(client, client), DaemonMetrics.create(PYTHON), PYTHON))


class EntryWithoutSection(ListenerEntry[Any, Any]):
    def section(self, listeners: Section) -> Any:
        return True


def listener_entry(
    name: str, drained: list[str], fault: Exception | None = None, *, drains_last: bool = False
) -> ListenerEntry[Any, Any]:
    return EntryWithoutSection(
        name,
        make=lambda *_: DrainedListener(name, drained, fault),
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
    server = make_server(settings, client)
    tasks_before = asyncio.all_tasks()

    with caplog.at_level(logging.ERROR):
        await server.run(dict, server.stop)

    assert drained == ["first", "second", "last"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "cannot drain the listener first: a fault of the first"
    assert record.exc_info
    assert asyncio.all_tasks() == tasks_before


class TeachingListener(DrainedListener):
    """A listener in whose drain somebody teaches a message and hangs up."""

    def __init__(self, context: Any) -> None:
        super().__init__("teaching", [], None)
        self._spam_filter = context.message_service.runtime.spam_filter

    async def drain(self, seconds: float) -> None:
        lesson = asyncio.create_task(self._spam_filter.learn(PRIZE, "spam", "test"))
        await asyncio.sleep(0)  # it joins a group
        await asyncio.sleep(0)  # which begins
        lesson.cancel()
        await asyncio.wait([lesson])
        assert self._spam_filter.parts.lesson_groups


async def test_a_lesson_that_is_on_its_way_when_all_is_drained_is_made(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryWithoutSection(
        "teaching", make=lambda _, context: TeachingListener(context), counts_connections=False
    )
    monkeypatch.setattr(server_module, "LISTENERS", (entry,))
    settings = Settings.model_validate({"state_dir": str(tmp_path)})
    server = make_server(settings, client)
    tasks_before = asyncio.all_tasks()

    await server.run(dict, server.stop)

    assert asyncio.all_tasks() == tasks_before
    assert await Model(client, "default", 3600).entry(PRIZE.key)


async def test_users_follow_the_aliases_that_a_reload_reads(client: Redis, tmp_path: Path) -> None:
    aliases = tmp_path / "aliases"
    aliases.write_text("sales@x.example ann@x.example\n")
    settings = Settings.model_validate({"state_dir": str(tmp_path), "own_models": {"alias_file": str(aliases)}})
    parts = ServerParts(settings, RedisClients(client, client), DaemonMetrics.create(PYTHON), PYTHON)
    server = Server(parts)
    envelope = Envelope(SmtpPath("a@x.example"), (SmtpPath("sales@x.example"),))
    await parts.quarantine.write([(QuarantineNote("a" * 24, "spam", 1.0, "", envelope), b"", b"\r\n")])
    assert parts.quarantine.users() == ["ann@x.example"]

    aliases.write_text("sales@x.example ben@x.example\n")
    server.apply_settings(settings)

    await until(lambda: parts.quarantine.users() == ["ben@x.example"])
    await parts.background.stop()


async def test_a_reload_reads_the_aliases_once_and_opens_no_file_where_the_users_stay(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = {"state_dir": str(tmp_path)}
    server = make_server(Settings.model_validate(section), client)
    reads: list[None] = []
    read_aliases = OwnModelsSettings.read_aliases

    def count_and_read(settings: OwnModelsSettings) -> Mapping[str, str]:
        reads.append(None)
        return read_aliases(settings)

    monkeypatch.setattr(OwnModelsSettings, "read_aliases", count_and_read)
    tasks = asyncio.all_tasks()

    rules = [{"match": "*@x.example", "name": "{address}"}]
    server.apply_settings(Settings.model_validate({**section, "models": rules}))

    assert asyncio.all_tasks() == tasks
    assert len(reads) == 1
