"""A daemon with its page, as an administrator runs it, and visitors who have logged in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import Parts
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.server.http.access import Role
from nbstream.store.logins import PageSessionStore
from nbstream.store.model.keys import ModelKeys
from tests.harness.daemon import DaemonProcess, free_port, send, wait_until
from tests.harness.samples import samples

if TYPE_CHECKING:
    from tests.browser.visitor import Visitor


class Site:
    """A running daemon. ``origin`` is where its page is."""

    def __init__(self, config_file: Path, daemon: DaemonProcess) -> None:
        self.config = config_file
        self.daemon = daemon
        self.origin = f"http://{daemon.address('http')}"

    def log_in(self, visitor: Visitor, *, read_only: bool = False) -> None:
        """Give a visitor a session, as the login stores it; ``test_access`` is about the login itself."""

        async def create_session() -> str:
            settings = config.load_settings(self.config)
            async with open_running_redis(settings) as clients:
                store = PageSessionStore(clients.client, ModelKeys(settings.model.name))
                return await store.create_session(Role.READ if read_only else Role.TEACH, "page tester")

        visitor.use_session(self.origin, run_aside(create_session()))

    def message_ids(self) -> list[str]:
        """Return the ids of the messages that are remembered, the newest first."""

        async def read() -> list[str]:
            settings = config.load_settings(self.config)
            async with open_running_redis(settings) as clients:
                return [message.key async for message in Parts(settings, clients).recent_messages.newest(100)]

        ids: list[str] = run_aside(read())
        return ids


def run_aside(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a thread: in this one, Playwright's loop runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextmanager
def open_site(folder: Path, changes: Mapping[str, Any] | None = None) -> Iterator[Site]:
    """Run a daemon with SMTP, a Maildir, quarantine and the page; ``changes`` replace sections of its settings."""
    settings: dict[str, Any] = {
        "state_dir": str(folder / "state"),
        "model": {"min_learned": 3},
        "verdict": {"spam": 0.95},  # a small site has few messages to be surer by
        "memory": {"messages": 200_000},
        "relay": {"next_hop": f"maildir:{folder / 'Maildir'}"},
        "listeners": {
            "smtp": {"listen": "127.0.0.1:0"},
            "http": {"listen": f"127.0.0.1:{free_port()}"},
        },
        "log": {"format": "json"},
    }
    config_file = folder / "nb.yaml"
    config_file.write_text(yaml.safe_dump({**settings, **(changes or {})}))
    with DaemonProcess(config_file) as daemon:
        yield Site(config_file, daemon)


def teach(site: Site, count: int = 40) -> None:
    """Teach messages by mail."""
    send(site.daemon, [(f"{label}@nbstream.invalid", raw) for label, raw in samples(count)])


def check(site: Site, count: int = 10, seed: int = 8) -> None:
    """Send messages through the filter; they are remembered then."""
    before = len(site.message_ids())
    send(site.daemon, [("you@example.net", raw) for _, raw in samples(count, seed=seed)])
    wait_until(lambda: len(site.message_ids()) >= before + count)
