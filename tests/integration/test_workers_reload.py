"""A reload of several workers: all have the same settings, or none has the new ones."""

from __future__ import annotations

import os
import select
import signal
import socket
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from nbstream.server import control_socket
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, command, wait_until
from tests.integration.test_reload import catches_hangups
from tests.integration.workers import MANY, Site, logged_events, model, replaced, total

LAST_SUCCESS = "nbstream_config_last_success_timestamp_seconds"
REFUSED = 'nbstream_config_reloads_total{outcome="refused"}'


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


def test_a_reload_reaches_all_and_holds_for_those_that_come_later(site: Site) -> None:
    with site.running() as daemon:
        site.write("verdict: {spam: 0.9}")
        result = command("reload", "-c", site.file)

        assert (result.returncode, result.stderr) == (0, "")
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))
        # Whichever tells it: two moments would be reloads without end to whoever watches.
        read = {
            total(daemon, LAST_SUCCESS, listener) for listener in ("http", "metrics") for _ in range(MANY // 2)
        }
        assert len(read) == 1

        for times, victim in enumerate(site.pids(), 1):
            os.kill(victim, signal.SIGKILL)
            replaced(daemon, times)
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))

        site.write("verdict: {spam: 0.8}")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(logged_events(daemon, "reloaded")) == 2)
        assert all(model(daemon)["thresholds"]["spam"] == 0.8 for _ in range(MANY))

        site.write("verdict: {spam: 7}", workers=3)
        result = command("reload", "-c", site.file)
        assert result.returncode == 78
        assert all(model(daemon)["thresholds"]["spam"] == 0.8 for _ in range(MANY))
        site.write("verdict: {spam: 0.8}", workers=3)
        assert "in force only after a restart: workers\n" in command("reload", "-c", site.file).stdout


def test_a_hangup_in_the_first_moment_reloads_all(site: Site) -> None:
    daemon = DaemonProcess(site.file)
    try:
        wait_until(lambda: catches_hangups(daemon.process.pid))
        site.write("verdict: {spam: 0.9}")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(logged_events(daemon, "reloaded")) == 1)
        daemon.ready()
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))
        assert daemon.stop() == 0
    finally:
        daemon.kill()


@pytest.mark.soak
def test_a_reload_is_refused_by_all_where_one_does_not_answer(site: Site) -> None:
    with site.running() as daemon:
        silent = site.pids()[1]
        os.kill(silent, signal.SIGSTOP)
        try:
            site.write("verdict: {spam: 0.9}")
            result = command("reload", "-c", site.file)
        finally:
            os.kill(silent, signal.SIGCONT)

        assert result.returncode == 78
        assert "worker 2: no answer within 10 s" in result.stderr
        assert total(daemon, "nbstream_config_reloads_total") == daemon.metric(REFUSED) == 1
        assert all(model(daemon)["thresholds"]["spam"] == 0.99 for _ in range(MANY))


@pytest.mark.soak
def test_scrapers_that_wait_for_a_worker_do_not_have_a_reload_refused(site: Site) -> None:
    with site.running() as daemon:
        host, _, port = daemon.address("metrics").rpartition(":")
        silent = site.pids()[0]
        os.kill(silent, signal.SIGSTOP)
        scrapers = [socket.create_connection((host, int(port)), DEADLINE_SECONDS) for _ in range(40)]
        try:
            for scraper in scrapers:
                scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # The other worker has answered the rest: as many scrapers wait now as may wait.
            assert select.select(scrapers, [], [], DEADLINE_SECONDS)[0]
            site.write("verdict: {spam: 0.9}")
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(control_socket.ask_daemon, site.state, "reload", DEADLINE_SECONDS)
                wait([waiting], 1.0)  # refused at once, or waiting for the stopped worker
                os.kill(silent, signal.SIGCONT)
                assert waiting.result()["problems"] == []
        finally:
            os.kill(silent, signal.SIGCONT)
            for scraper in scrapers:
                scraper.close()
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))
