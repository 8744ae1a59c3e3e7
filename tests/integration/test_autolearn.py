"""Learning without people in a real daemon, by mail: it learns what is sure, gives way, and can be dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.harness.daemon import DaemonProcess, command, send, wait_until, write_config
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

KEY = "nbstream:{default}:"
TAUGHT = list(samples(120))
FRESH = list(samples(100, seed=8))


class Site:
    """Daemons on one Redis that the test may look into."""

    def __init__(self, folder: Path, server: RedisServer) -> None:
        self.redis = Redis(unix_socket_path=str(server.socket))
        self._server = server
        self._folder = folder
        self.daemons: list[DaemonProcess] = []

    def start(self, autolearn: str = "{ham: 0.02, spam: 0.98}", name: str = "one") -> DaemonProcess:
        folder = self._folder / name
        folder.mkdir()
        config = write_config(
            folder,
            redis=f"{{url: '{self._server.url}', timeout_seconds: 2}}",
            model="{min_learned: 20}",
            verdict="{spam: 0.95}",
            autolearn=autolearn,
        )
        self.daemons.append(DaemonProcess(config).ready())
        return self.daemons[-1]

    def auto(self) -> dict[str, int]:
        """The totals of what was learned without people, as they are in Redis."""
        found: Any = self.redis.hgetall(f"{KEY}totals")
        return {name.decode(): int(value) for name, value in found.items() if b"auto" in name}

    def people(self) -> dict[bytes, Any]:
        """All that people taught: counts, totals, ledger, prequential scores and history."""
        kinds = ("counts:ham", "counts:spam", "totals", "ledger:", "first:", "history")
        names: Any = self.redis.keys(f"{KEY}*")
        of_people = {
            name: self._content(name)
            for name in sorted(names)
            if name.decode().removeprefix(KEY).startswith(kinds)
            and not (b"ledger:" in name and b":" in (self.redis.hget(name, "label") or b""))
        }
        totals = of_people[f"{KEY}totals".encode()]
        of_people[f"{KEY}totals".encode()] = {
            field: total for field, total in totals.items() if b"auto" not in field and field != b"generation"
        }
        return of_people

    def _content(self, name: bytes) -> Any:
        """A hash field by field, since its dump has another order while Redis enlarges it; others byte by byte."""
        return self.redis.hgetall(name) if self.redis.type(name) == b"hash" else self.redis.dump(name)


@pytest.fixture
def site(tmp_path: Path, own_redis: RedisServer) -> Iterator[Site]:
    found = Site(tmp_path, own_redis)
    yield found
    for daemon in found.daemons:
        daemon.kill()
    found.redis.close()


def teach(daemon: DaemonProcess) -> None:
    send(daemon, [(f"{label}@nbstream.invalid", raw) for label, raw in TAUGHT])


def deliver(daemon: DaemonProcess, raws: list[bytes]) -> None:
    """Have messages checked, and wait until something has become of those that are sure."""
    checked = 'nbstream_check_seconds_count{stage="score"}'
    send(daemon, [("to@example.org", raw) for raw in raws])
    assert daemon.metric(checked) >= len(raws)


def learned(daemon: DaemonProcess, outcome: str = "learned") -> float:
    return sum(
        daemon.metric(f'nbstream_autolearn_total{{label="{label}",outcome="{outcome}"}}')
        for label in ("ham", "spam")
    )


def layer(daemon: DaemonProcess) -> float:
    return sum(daemon.metric(f'nbstream_autolearn_messages{{class="{label}"}}') for label in ("ham", "spam"))


def test_where_people_move_nothing_but_spam_implicit_ham_brings_verdicts(site: Site) -> None:
    one = site.start("{}", name="one")
    send(one, [("spam@nbstream.invalid", raw) for label, raw in TAUGHT if label == "spam"])
    ham = [raw for label, raw in FRESH if label == "ham"]
    assert len(ham) > 20
    deliver(one, ham)
    wait_until(lambda: site.redis.zcard(f"{KEY}recent") == len(ham))
    remembered: Any = site.redis.zrange(f"{KEY}recent", 0, -1, withscores=True)
    site.redis.zadd(f"{KEY}recent", {key: at - 50 * 3600 for key, at in remembered})
    before = site.people()

    two = site.start("{}", name="two")  # it walks when it starts
    wait_until(lambda: two.metric('nbstream_autolearn_total{label="ham",outcome="kept"}') == len(ham))

    state = json.loads(command("status", "-c", two.config, "--json").stdout)
    assert (state["state"], state["implicit_ham"], state["learned"]["ham"]) == ("ready", len(ham), len(ham))
    text = command("status", "-c", two.config).stdout
    assert f"ham {len(ham)}, spam 0; the ham is implicit ham, until people teach ham" in text
    assert "nbstream forget --auto drops it" in text
    assert site.people() == before
    (reply,) = send(one, [("ham@nbstream.invalid", ham[0])])
    assert "learned as ham" in reply
    assert site.auto()["messages:auto-ham:0"] == len(ham) - 1


def test_forget_auto_drops_it_under_running_daemons_and_leaves_what_people_taught(site: Site) -> None:
    one, two = site.start(name="one"), site.start(name="two")
    teach(one)
    probes = [("to@example.org", raw) for _, raw in samples(6, seed=11)]
    deliver(one, [raw for _, raw in FRESH])
    wait_until(lambda: layer(one) > 5 and layer(two) == layer(one))
    before = site.people()

    told = command("forget", "--auto", "-c", one.config)
    assert "would be dropped" in told.stdout
    assert layer(one) > 5
    done = command("forget", "--auto", "-c", one.config, "--yes")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("dropped: ")
    wait_until(lambda: layer(one) == layer(two) == 0)
    assert site.auto() == {}
    assert site.people() == before
    assert not [event for event in one.events + two.events if "Redis has lost" in event["event"]]
    send(two, probes)  # both learn on, in the next epoch
    wait_until(lambda: layer(two) > 0 and layer(one) == layer(two))
    assert site.people() == before
