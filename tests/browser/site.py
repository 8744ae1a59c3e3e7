"""A daemon with its page, as an administrator runs it: made-up mail that it remembers, and one-time links."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nbstream import config
from nbstream.assembly.store import make_model, make_recent_messages, open_running_redis
from nbstream.policy.envelope import Envelope
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokens
from tests.integration.daemon import DaemonProcess, command, free_port, send, wait_until
from tests.letters import letters

if TYPE_CHECKING:
    from playwright._impl._api_structures import SetCookieParam  # the type of add_cookies; it has no other name

    from tests.browser.visitor import Visitor

_WORDS = "agenda budget cash claim friday holiday lunch meeting offer pills prize project report"
_AT_ONCE = 192  # three full batches; more messages that wait to be written would be dropped


class Site:
    """A running daemon. ``origin`` is where its page is."""

    def __init__(self, config_file: Path, daemon: DaemonProcess) -> None:
        self.config = config_file
        self.daemon = daemon
        self.origin = f"http://{daemon.address('http')}"
        self._cookies: dict[bool, Sequence[SetCookieParam]] = {}

    def login_link(self, *, read_only: bool = False) -> str:
        """Return what ``nbstream ui`` prints, without the origin."""
        result = command("ui", "-c", self.config, *(["--read-only"] if read_only else []))
        link = re.search(r"http://[^/\s]+(/ui/login\S+)", result.stdout)
        assert link, result
        return link[1]

    def log_in(self, visitor: Visitor, *, read_only: bool = False) -> None:
        """Log a visitor in by a one-time link; the next one of this role gets the session of the first."""
        if read_only in self._cookies:
            visitor.use_cookies(self._cookies[read_only])
            return
        visitor.go(f"{self.login_link(read_only=read_only)}&to=/ui/teaching")
        visitor.page.get_by_role("button").click()
        visitor.page.wait_for_url("**/ui/teaching")
        visitor.page.get_by_role("navigation").first.wait_for()
        self._cookies[read_only] = visitor.cookies()

    def message_ids(self) -> list[str]:
        """Return the ids of the messages that are remembered, the newest first."""

        async def read() -> list[str]:
            settings = config.load_settings(self.config)
            async with open_running_redis(settings) as clients:
                model = await make_model(settings, clients.client).open(sign=False)
                return [message.key async for message in make_recent_messages(settings, model).newest(100)]

        ids: list[str] = run_aside(read())
        return ids

    def remember(self, messages: Sequence[tuple[CheckedMessage, Envelope]]) -> None:
        """Write checked messages as the daemon does, without checking them."""

        async def write() -> None:
            settings = config.load_settings(self.config)
            async with open_running_redis(settings) as clients:
                model = await make_model(settings, clients.client).open()
                recent = make_recent_messages(settings, model)
                writing = asyncio.create_task(recent.run())
                for number, (message, envelope) in enumerate(messages, 1):
                    recent.remember(message, None, lambda envelope=envelope: envelope)  # type: ignore[misc]
                    if number % _AT_ONCE == 0:
                        await recent.wait_until_written()
                await recent.wait_until_written()
                writing.cancel()
                await asyncio.wait([writing])

        run_aside(write())


def run_aside(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a thread: in this one, Playwright's loop runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextmanager
def open_site(folder: Path, changes: Mapping[str, Any] | None = None) -> Iterator[Site]:
    """Run a daemon with SMTP, a Maildir, quarantine and the page; ``changes`` replace sections of its settings."""
    settings: dict[str, Any] = {
        "state_dir": str(folder / "state"),
        "model": {"min_learned": {"ham": 3, "spam": 3}},
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


def made_up_messages(count: int, seed: int = 1) -> Iterator[tuple[CheckedMessage, Envelope]]:
    """Yield messages with their envelopes, as different as an administrator sees them."""
    draw = random.Random(seed)
    for number in range(count):
        probability = draw.betavariate(0.3, 0.4)
        verdict = "spam" if probability > 0.95 else "unsure" if probability > 0.5 else "ham"
        words = draw.sample(_WORDS.split(), 4)
        key = f"{'abcdefghijklmnopqrstuvwxyz234567'[number % 32]}{number:023d}".translate(_ID_DIGITS)
        tokens = Tokens([f"subject:{word}".encode() for word in words], [b"body:the"])
        envelope = Envelope(
            "smtp",
            f"{draw.choice(words)}@{draw.choice(['offers.example.com', 'work.example.org'])}",
            (f"{draw.choice(['ann', 'ben', 'eve'])}@example.net",),
            1,
            " ".join(words).capitalize(),
            "quarantine" if verdict == "spam" else "",
        )
        yield CheckedMessage(key, tokens, probability, verdict), envelope


_ID_DIGITS = str.maketrans("0189", "vwxy")  # an id has a-z and 2-7


def teach_and_send(site: Site, taught: int = 40, sent: int = 10) -> None:
    """Teach letters by mail, and send others through the filter."""
    send(site.daemon, [(f"{label}@nbstream.invalid", raw) for label, raw in letters(taught)])
    send(site.daemon, [("you@example.net", raw) for _, raw in letters(sent, seed=8)])
    wait_until(lambda: len(site.message_ids()) >= sent)
