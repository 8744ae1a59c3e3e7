"""What is attacked: two hosts of nbstream that share a model, their Redis, the next hop, and small disks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from tests.harness.daemon import free_port
from tests.harness.waiting import until
from tests.soak.chaos.http_client import request
from tests.soak.chaos.journal import Journal
from tests.soak.chaos.mails import mail
from tests.soak.chaos.next_hop import NextHop
from tests.soak.chaos.redis_service import DIRECT, READY_SECONDS, RedisService
from tests.soak.chaos.schedule import HOSTS
from tests.soak.chaos.services import Daemon

HELD_DOMAIN = "held.example"
"""Mail to this domain goes to the quarantine."""

_CONFIGURATION = """\
state_dir: {folder}/state
workers: {workers}
drain_seconds: 5
redis: {redis}
relay: {{next_hop: "{next_hop}", reply_timeout_seconds: 4}}
listeners:
  smtp: {{listen: "127.0.0.1:{smtp}"}}
  http: {{listen: "127.0.0.1:{http}"}}
  spamd: {{listen: "127.0.0.1:{spamd}"}}
  stream: {{}}
  dovecot: {{listen: "unix:{folder}/report"}}
model: {{min_learned: 10}}
autolearn: {{ham: 0.02, spam: 0.98}}
log: {{format: json}}
recipients:
  - match: "*@{held}"
    actions: {{ham: quarantine, unsure: quarantine, spam: quarantine, reject: quarantine}}
verdict: {{unsure: {unsure}, spam: {spam}}}
"""

"""After so many seconds without an answer an entry may be tried again."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a host listens."""

    smtp: int
    http: int
    spamd: int


class Host:
    """One host: its configuration and its daemon. ``redis`` is its setting of that name."""

    def __init__(self, name: str, folder: Path, workers: int, next_hop: str, redis: str, journal: Journal) -> None:
        self.name = name
        self.folder = folder
        self.ports = Ports(free_port(), free_port(), free_port())
        self.config = folder / f"{name}.yaml"
        self._workers = workers
        self._next_hop = next_hop
        self._redis = redis
        self._journal = journal
        folder.mkdir()
        self.write_config()
        self.daemon = Daemon(f"daemon {name}", self.config, folder / "daemon.log", journal)

    @property
    def report_socket(self) -> Path:
        """Where Dovecot hands over what people move to Junk."""
        return self.folder / "report"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def quarantine(self) -> Path:
        return self.folder / "state" / "Quarantine"

    def write_config(self, unsure: float = 0.5, spam: float = 0.95) -> None:
        """Replace the file as a whole."""
        new_file = self.config.with_suffix(".new")
        new_file.write_text(
            _CONFIGURATION.format(
                folder=self.folder,
                workers=self._workers,
                redis=self._redis,
                next_hop=self._next_hop,
                smtp=self.ports.smtp,
                http=self.ports.http,
                spamd=self.ports.spamd,
                held=HELD_DOMAIN,
                unsure=unsure,
                spam=spam,
            )
        )
        new_file.replace(self.config)

    async def check(self, number: int) -> tuple[int, Any]:
        """Check a message over the API; return the status and the JSON of the answer.

        Raises ``OSError`` or ``EOFError`` where there is none.
        """
        return await request(self.ports.http, "POST", "/v1/check", mail(number))

    async def wait_until_ready(self) -> None:
        """Return once the daemon takes mail. Raises ``TimeoutError``."""
        await until(self._greets, READY_SECONDS)

    async def _greets(self) -> bool:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(5.0):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.ports.smtp)
                try:
                    return (await reader.readline()).startswith(b"220")
                finally:
                    writer.transport.abort()
        return False


@dataclass(frozen=True, slots=True)
class Site:
    """All of it. ``redis`` is a client that no fault of a connection meets."""

    folder: Path
    hosts: dict[str, Host]
    server: RedisService
    redis: Redis
    next_hop: NextHop
    maildir: Path
    journal: Journal

    @property
    def mail_disk(self) -> Path:
        return self.maildir.parent

    async def wait_until_ready(self) -> None:
        """Return once Redis answers and all daemons take mail. Raises ``TimeoutError``."""
        await self.server.wait_until_ready()
        for host in self.hosts.values():
            await host.wait_until_ready()


@asynccontextmanager
async def running_site(
    folder: Path, mail_disk: Path, server: RedisService, journal: Journal
) -> AsyncIterator[Site]:
    """Start both hosts and the next hop."""
    async with AsyncExitStack() as stack:
        redis = server.client(DIRECT)
        stack.push_async_callback(redis.aclose)
        hop = await stack.enter_async_context(NextHop(free_port()))
        maildir = mail_disk / "Maildir"
        next_hops = {"a": f"smtp://127.0.0.1:{hop.port}", "b": f"maildir:{maildir}"}
        hosts = {}
        for name, workers in zip(HOSTS, (2, 1), strict=True):
            hosts[name] = Host(name, folder / name, workers, next_hops[name], server.setting(name), journal)
            await stack.enter_async_context(hosts[name].daemon)
        site = Site(folder, hosts, server, redis, hop, maildir, journal)
        await site.wait_until_ready()
        yield site
