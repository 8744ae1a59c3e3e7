"""The page at ``/ui/``: what it takes to show its views, and what it costs the checks beside it.

Its client on loopback has a session, as a browser has, and asks on one connection, which is kept: its times are
those of the server and of the client's reading. It does not draw anything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import uvloop

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import Daemon, daemon, taught, write_config
from tests.benchmarks.speed.figures import OURS, percentile
from tests.benchmarks.speed.listeners import module, smtp_requests
from tests.benchmarks.speed.page_client import PageClient, open_browsers, open_sessions
from tests.benchmarks.speed.pairs import Side, measure_pairs
from tests.benchmarks.speed.plan import (
    BROWSERS,
    CHECKS_BESIDE_BROWSERS,
    FIRST_VIEW,
    KILOBYTES,
    MILLISECONDS,
    NO_BROWSER,
    NOTHING_STORED,
    PERCENTILES,
    SLOWEST_SEARCH,
    STORED_FOR_PAGE,
)
from tests.benchmarks.speed.processes import free_port
from tests.made_up_activity import add_activity
from tests.remembered_messages import Remembered, made_up_messages, remember

VIEWS = (
    "/ui/",
    "/ui/messages",
    "/ui/thresholds",
    "/ui/teaching",
    "/ui/tokens",
    "/ui/quarantine",
    "/ui/?span=day",
    "/ui/?span=week",
    "/ui/tokens?part=money",
    "/ui/undo",
)
MEMORY = "{messages: 200000}"
ROBOT = "robot@build.example.org"
_DAY_MINUTES = 24 * 60
_MESSAGE = re.compile(rb'href="(/ui/messages/([a-z2-7]+))"')
_POSITION = re.compile(rb'href="/ui/messages\?(older=[^"]+)"')


def run(bench: Bench) -> None:
    """Measure the views, the searches, the browsers beside checks, and what is stored for the page."""
    with bench.skipping("the views"):
        _views(bench)
    with bench.skipping(CHECKS_BESIDE_BROWSERS):
        _browsers(bench)
    with bench.skipping(STORED_FOR_PAGE):
        _stored(bench)


def _views(bench: Bench) -> None:
    config_file, remembered = write_config(taught(bench), memory=MEMORY), 0
    messages = _messages(max(bench.scale.remembered))
    with daemon(config_file) as ours:
        uvloop.run(add_activity(config_file, _DAY_MINUTES))
        for count in bench.scale.remembered:
            uvloop.run(remember(config_file, list(islice(messages, count - remembered))))
            remembered = count
            uvloop.run(_measure_views(bench, ours, config_file, count))
    first = []
    for _ in range(bench.scale.rounds):
        with daemon(config_file) as ours:
            first.append(uvloop.run(_first_view(ours, config_file)))
    bench.record(FIRST_VIEW, MILLISECONDS, *(1000 * seconds for seconds, _ in first))
    bench.record(FIRST_VIEW, KILOBYTES, *(size / 1000 for _, size in first))


def _messages(count: int) -> Iterator[Remembered]:
    """Made-up messages, of which every thirtieth is of a robot that sends nothing but ham."""
    for number, (message, envelope) in enumerate(made_up_messages(count)):
        if number % 30:
            yield message, envelope
        else:
            yield replace(message, verdict="ham"), replace(envelope, sender=ROBOT)


async def _first_view(ours: Daemon, config_file: Path) -> tuple[float, int]:
    with closing(await _client(ours, config_file)) as client:
        return await client.get_with_files("/ui/")


async def _client(ours: Daemon, config_file: Path) -> PageClient:
    address = ours.address("http")
    return await PageClient.to(address, *await open_sessions(address, config_file))


async def _measure_views(bench: Bench, ours: Daemon, config_file: Path, count: int) -> None:
    """Record what each view takes while so many messages are remembered, and each search of the most."""
    with closing(await _client(ours, config_file)) as client:
        listed = (await client.get("/ui/messages")).body
        message = _MESSAGE.search(listed)
        views = {path: path for path in VIEWS} | ({"/ui/messages/ID": message[1].decode()} if message else {})
        for name, path in views.items():
            _, size = await client.get_with_files(path)
            await _measure(bench, client, f"{name}, {count:,} messages", path)
            bench.record(f"{name}, {count:,} messages, with its static files", KILOBYTES, size / 1000)
        if count == max(bench.scale.remembered):
            found = [
                await _measure(bench, client, f"search of {count:,} messages: {name}", f"/ui/messages?{query}")
                for name, query in _searches(listed).items()
            ]
            bench.record(SLOWEST_SEARCH, MILLISECONDS, max(found))


def _searches(listed: bytes) -> dict[str, str]:
    """The searches by their names, for a list of messages as the page shows it."""
    found, position = _MESSAGE.search(listed), _POSITION.search(listed)
    an_id = found[2].decode() if found else "a"
    day = time.strftime("%Y-%m-%d")
    sender, domain, ann = map(quote, ("cash@offers.example.com", "@offers.example.com", "ann@example.net"))
    return {
        "the newest": "",
        "the second page": position[1].decode().replace("&amp;", "&") if position else "",
        "a whole id": f"id={an_id}",
        "the beginning of an id": f"id={an_id[:1]}",
        "a time": f"since={day}T00:00&until={day}T23:59",
        "a verdict": "verdict=unsure",
        "a sender": f"sender={sender}",
        "a domain": f"sender={domain}",
        "a recipient": f"recipient={ann}",
        "a sender, a recipient and a verdict": f"sender={sender}&recipient={ann}&verdict=unsure",
        "a domain and a beginning of an id that nothing has both": f"sender={domain}&id=aaaaaaaa",
        "a sender that nobody is": "sender=nobody@example.net",
        "a sender and a verdict that exclude each other": f"sender={quote(ROBOT)}&verdict=unsure",
    }


async def _measure(bench: Bench, client: PageClient, case: str, path: str) -> float:
    """Record the times of a path, and return the p99 in milliseconds."""
    answers = [await client.get(path) for _ in range(bench.scale.views)]
    waits = [1000 * answer.seconds for answer in answers]
    for name in ("p50", "p99"):
        bench.record(f"{case}, {name}", MILLISECONDS, percentile(waits, PERCENTILES[name]))
    return percentile(waits, PERCENTILES["p99"])


def _browsers(bench: Bench) -> None:
    """Check messages while browsers have the page open, and while none has."""
    requests = [clients.Http.request("/checkv2", path.read_bytes()) for _, path in bench.checked]
    config_file = write_config(taught(bench))
    with daemon(config_file) as ours:
        address = ours.address("http")

        async def connect() -> clients.Connection:
            return await clients.Http.to(address)

        async def measure() -> None:
            await add_activity(config_file)
            cookies = await open_sessions(address, config_file, BROWSERS)
            with_page = Side(OURS, ours.server, connect, partial(open_browsers, address, cookies))
            without = Side(NO_BROWSER, ours.server, connect, partial(open_browsers, address, []))  # the same rest
            await measure_pairs(bench, CHECKS_BESIDE_BROWSERS, with_page, without, requests)

        uvloop.run(measure())


def _stored(bench: Bench) -> None:
    """Pass on mail with what is counted and stored for the page, and without."""
    port, folder = free_port(), bench.new_folder("sink")
    relay = f'{{next_hop: "smtp://127.0.0.1:{port}"}}'
    with_page = write_config(taught(bench), relay=relay)
    without = write_config(taught(bench), http=False, relay=relay, memory="{envelope: false}")
    with module("sink", port=port, folder=folder), daemon(with_page) as ours, daemon(without) as other:

        def side(who: str, running: Daemon) -> Side:
            async def connect() -> clients.Connection:
                return await clients.Smtp.greeted(running.address("smtp"))

            return Side(who, running.server, connect)

        sides = side(OURS, ours), side(NOTHING_STORED, other)
        uvloop.run(measure_pairs(bench, STORED_FOR_PAGE, *sides, smtp_requests(bench)))
