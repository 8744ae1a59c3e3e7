"""The daemon that ``nbstream bench`` measures: it serves while the context lasts, and ends with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.config import Settings
from nbstream.errors import CannotStart, CheckFailed
from tests.benchmarks.capacity.http_checks import check_through_http
from tests.benchmarks.capacity.machine import private_settings
from tests.benchmarks.capacity.measured_daemon import measured_daemon
from tests.letters import letters

LETTERS = [raw for _, raw in letters(30)]


async def test_it_checks_messages_and_says_what_cpu_that_took(tmp_path: Path, redis_binary: Path) -> None:
    async with measured_daemon(private_settings(Settings(), tmp_path)) as daemon:
        before = await daemon.cpu_seconds()
        await check_through_http(daemon.host, daemon.port, LETTERS, 3)

        assert await daemon.cpu_seconds() > before

    with pytest.raises(CheckFailed, match="no answer through HTTP: ConnectionRefusedError"):
        await check_through_http(daemon.host, daemon.port, LETTERS, 1)


async def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CannotStart, match=r"the measured daemon does not start: .*Not a directory"):
        async with measured_daemon(private_settings(Settings(), tmp_path / "file" / "state")):
            pass


async def test_a_request_that_is_refused_is_no_measurement(tmp_path: Path, redis_binary: Path) -> None:
    settings = private_settings(Settings.model_validate({"limits": {"max_message_bytes": 10}}), tmp_path)

    async with measured_daemon(settings) as daemon:
        with pytest.raises(CheckFailed, match=r"HTTP: HTTP/1\.1 413"):
            await check_through_http(daemon.host, daemon.port, LETTERS, 1)
