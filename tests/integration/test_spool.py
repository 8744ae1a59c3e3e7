"""The spool of a real daemon: what was acknowledged is learned once, whatever ends in between."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream.listeners.dovecot.spool import SpoolBacklog, measure_backlog
from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.harness.redis.redis_server import RedisServer
from tests.harness.spool_client import REFUSED, TAKEN, numbered, report
from tests.integration.test_full_disk import fill
from tests.integration.workers import Site, logged_events

PACE_SECONDS = 0.03  # of a client: no more messages than are learned in the time of a test


class Reporter:
    """Reports one message after the other in a thread, and writes down which were taken."""

    def __init__(self, path: Path, numbers: Iterator[int]) -> None:
        self.taken: list[int] = []
        self._path, self._numbers = path, numbers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(PACE_SECONDS):
            number = next(self._numbers)
            if report(self._path, numbered(number)) == TAKEN:
                self.taken.append(number)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def site_with_spool(folder: Path, **options: object) -> tuple[Site, Path]:
    site, path = Site(folder), folder / "nbstream-report"
    listeners = "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}, metrics: {listen: '127.0.0.1:0'}"
    site.write(listeners=f"{listeners}, dovecot: {{listen: 'unix:{path}'}}", **options)  # type: ignore[arg-type] # as they are
    return site, path


def is_learned(daemon: DaemonProcess, site: Site, count: int) -> bool:
    learned = daemon.metric('nbstream_model_messages{class="spam"}')
    return learned == count and measure_backlog(site.state) == SpoolBacklog()


def learned_in_redis(site: Site) -> dict[str, int]:
    """How many messages of each class Redis has; a worker hears of another one's lessons a moment later."""
    learned: dict[str, int] = json.loads(command("status", "--json", "-c", site.file).stdout)["learned"]
    return learned


def test_a_killed_daemon_learns_after_its_start_what_waited(tmp_path: Path, redis_binary: Path) -> None:
    site, path = site_with_spool(tmp_path, workers=1, text="redis: {timeout_seconds: 1}")
    with DaemonProcess(site.file) as daemon:
        os.kill(int((site.state / "redis.server").read_text()), signal.SIGSTOP)
        for number in range(50):
            assert report(path, numbered(number)) == TAKEN
        assert measure_backlog(site.state).waiting == 50
        wait_until(lambda: daemon.metric("nbstream_spool_waiting") == 50)
        os.kill(int((site.state / "redis.server").read_text()), signal.SIGCONT)
        daemon.process.kill()

    with DaemonProcess(site.file) as daemon:
        wait_until(lambda: is_learned(daemon, site, 50))
        assert '"failed": 0' in command("status", "--json", "-c", site.file).stdout


@pytest.mark.soak
def test_a_reload_and_a_drain_under_load_lose_nothing(tmp_path: Path, redis_binary: Path) -> None:
    site, path = site_with_spool(tmp_path)
    numbers = itertools.count()
    with site.running() as daemon:
        reporters = [Reporter(path, numbers) for _ in range(2)]
        try:
            wait_until(lambda: all(reporter.taken for reporter in reporters))
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: bool(logged_events(daemon, "reloaded")))
            assert daemon.stop() == 0
        finally:
            for reporter in reporters:
                reporter.stop()
    taken = sum(len(reporter.taken) for reporter in reporters)
    assert not path.exists()

    with DaemonProcess(site.file):
        wait_until(lambda: measure_backlog(site.state).waiting == 0)
        # What came in the last moment may be known and not answered: Dovecot would hand it over again.
        assert taken <= learned_in_redis(site)["spam"] <= next(numbers)


def test_a_full_disk_refuses_and_loses_nothing_acknowledged(
    small_disk: Path, tmp_path: Path, own_redis: RedisServer
) -> None:
    path, config = tmp_path / "nbstream-report", tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {small_disk}\nlog: {{format: json}}\nredis: {{url: '{own_redis.url}'}}\n"
        f"listeners: {{smtp: null, http: {{listen: 127.0.0.1:0}}, dovecot: {{listen: 'unix:{path}'}}}}\n"
    )
    with DaemonProcess(config) as daemon:
        assert report(path, numbered(0)) == TAKEN
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == 1)
        filler = fill(small_disk)
        # Each is larger than what the file itself has free, of which what is learned meanwhile gives back some.
        answers = [report(path, numbered(number) + b"x" * 500_000) for number in range(1, 5)]
        assert answers[-1] == REFUSED
        assert daemon.metric('nbstream_spool_messages_total{outcome="refused"}') >= 1

        filler.unlink()
        taken = 1 + answers.count(TAKEN)
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == taken)
        assert report(path, numbered(99)) == TAKEN
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == taken + 1)


def test_the_last_label_of_a_message_holds(tmp_path: Path, redis_binary: Path) -> None:
    """Two workers accept, one learns, and the order is that of the answers."""
    site, path = site_with_spool(tmp_path)
    with site.running():
        for _ in range(10):
            for label in ("spam", "ham"):
                assert report(path, numbered(1), label) == TAKEN
        wait_until(lambda: measure_backlog(site.state).waiting == 0)
        assert learned_in_redis(site) == {"ham": 1, "spam": 0}
