"""A reload of several workers: all have the same settings, or none has the new ones."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.harness.daemon import command, wait_until
from tests.integration.workers import MANY, Site, logged_events, model, replaced, total

LAST_SUCCESS = "nbstream_config_last_success_timestamp_seconds"


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


def test_one_that_starts_during_a_reload_has_the_new_settings(site: Site) -> None:
    with site.running() as daemon:
        os.kill(site.pids()[0], signal.SIGKILL)
        wait_until(lambda: [state for _, state in site.states()] == ["starting", "ready"])
        site.write("verdict: {spam: 0.9}")
        assert command("reload", "-c", site.file).returncode == 0
        replaced(daemon, 1)

        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))


@pytest.mark.soak
def test_one_that_does_not_take_new_settings_is_replaced_by_one_with_them(site: Site) -> None:
    with site.running() as daemon:
        hanging = site.pids()[1]
        os.kill(hanging, signal.SIGSTOP)
        site.write("verdict: {spam: 0.9}")
        assert command("reload", "-c", site.file).returncode == 0
        replaced(daemon, 1)

        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))


def test_what_no_worker_could_apply_is_refused_before_any_gets_it(site: Site, tmp_path: Path) -> None:
    aliases = tmp_path / "aliases"
    aliases.write_text("")
    section = f"own_models: {{alias_file: {aliases}}}\n"
    site.write(section)
    with site.running() as daemon:
        aliases.write_bytes(b"\xff")
        site.write(section + "verdict: {spam: 0.9}")
        result = command("reload", "-c", site.file)

        assert (result.returncode, "alias_file" in result.stderr) == (78, True)
        assert total(daemon, "nbstream_config_reloads_total") == 1
        assert all(model(daemon)["thresholds"]["spam"] == 0.99 for _ in range(MANY))
        assert not [event for event in daemon.events if event.get("worker") and event["level"] == "error"]
