"""Thousands of sessions and views of the page: what the memory of the daemon becomes, as a table.

``pytest -s`` shows the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.harness.daemon import DaemonProcess
from tests.harness.letters import letters
from tests.soak.chaos.http_client import ask

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

ROUNDS, WARM_UP = 12, 2
LOGINS = 200
"""Of each round, as are these:"""
VIEWS = 1000
MAX_GROWTH_MB = 8.0
PASSWORD = "password of this test"
PATHS = (
    *("/ui/", "/ui/messages", "/ui/messages?sender=%40x.example", "/ui/thresholds"),
    *("/ui/teaching", "/ui/undo?since=1h&actor=nobody"),
    *("/ui/quarantine", "/ui/messages/{id}"),
)


async def test_browsers_that_come_and_go_leave_nothing_in_memory(tmp_path: Path, redis_binary: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"state_dir: {tmp_path / 'state'}\n"
        f"listeners: {{smtp: null, http: {{listen: '127.0.0.1:0', password_file: {secret}}}}}\n"
        "model: {min_learned: {ham: 10, spam: 10}}\n"
    )
    with DaemonProcess(config) as daemon:
        browsers = Browsers(daemon)
        await browsers.teach()
        sizes = []
        for number in range(1, ROUNDS + 1):
            await browsers.play()
            sizes.append(browsers.resident_megabytes())
            print(f"{number * LOGINS:6,} sessions {number * VIEWS:7,} views {sizes[-1]:7.1f} MB", flush=True)
    assert sizes[-1] - sizes[WARM_UP - 1] < MAX_GROWTH_MB


class Browsers:
    """All who look at the page of a daemon."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._port = int(daemon.address("http").rpartition(":")[2])
        self._status = Path(f"/proc/{daemon.process.pid}/status")
        self._clients = 0
        self._id = ""

    def resident_megabytes(self) -> float:
        """The memory of the daemon."""
        found = re.search(r"VmRSS:\s+(\d+) kB", self._status.read_text())
        assert found
        return int(found[1]) / 1024

    async def teach(self) -> None:
        """Check and teach some messages, so that there is something to see."""
        for label, raw in letters(60):
            for path in ("/v1/check", f"/v1/learn?label={label}"):
                head, body = await ask(self._port, "POST", path, raw)
                assert head.status == 200, body
        found = re.search(rb'"id": ?"(\w+)"', body)
        assert found
        self._id = found[1].decode()

    async def play(self) -> None:
        """One round: sessions begin, and views are read."""
        cookies = [await self._log_in() for _ in range(LOGINS)]
        for number in range(VIEWS):
            path = PATHS[number % len(PATHS)].format(id=self._id)
            head, body = await ask(self._port, "GET", path, fields={"Cookie": cookies[number % LOGINS]})
            assert head.status == 200, (path, body)

    async def _log_in(self) -> str:
        self._clients += 1
        client = f"10.0.{self._clients // 256}.{self._clients % 256}"
        fields = {
            "X-Forwarded-For": client,
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        form = urlencode({"password": PASSWORD, "name": client}).encode()
        head, body = await ask(self._port, "POST", "/ui/login", form, fields)
        assert head.status == 200, body
        return head.field("set-cookie").partition(";")[0]
