"""Several workers under one parent: one daemon to the outside."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.daemon import DaemonProcess, command, gone, wait_until
from tests.integration.workers import LISTENERS, MANY, Site, model, replaced, scraped, send, total

MESSAGES = "nbstream_messages_total"
RESTARTS = "nbstream_worker_restarts_total"


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


def test_both_take_mail_and_know_what_was_taught_by_either(site: Site) -> None:
    with site.running() as daemon:
        assert len(set(site.pids())) == 2
        status = json.loads(command("status", "-c", site.file, "--json").stdout)
        assert [(worker["pid"], worker["state"]) for worker in status["workers"]] == [
            (pid, "ready") for pid in site.pids()
        ]
        for number in range(MANY):
            assert send(daemon, f"mail {number}").startswith("250 ")
        for number in range(MANY):
            reply = send(daemon, f"lesson {number}", "spam@nbstream.invalid", f"offer {number}")
            assert reply.startswith("250 2.0.0 learned")

        assert sorted(site.delivered()) == sorted(f"mail {number}" for number in range(MANY))
        parts = [site.counted(worker, MESSAGES) for worker in (1, 2)]
        assert all(parts)
        lessons = [site.counted(worker, "nbstream_feedback_total") for worker in (1, 2)]
        assert (all(lessons), sum(lessons)) == (True, MANY)
        wait_until(lambda: all(model(daemon)["learned"]["spam"] == MANY for _ in range(MANY)))
        # Both listeners export one view, whichever process answers.
        assert sum(parts) == total(daemon, MESSAGES) == total(daemon, MESSAGES, "http") == MANY
        assert sum(json.loads(daemon.get("/stat")[1])["actions"].values()) == MANY
        assert daemon.stop() == 0


def test_metrics_are_those_of_one_process(site: Site) -> None:
    exported = []
    for workers in (1, 2):
        site.state = site.file.with_name(f"state{workers}")
        site.write("autolearn: {}", listeners=f"{LISTENERS}, stream: {{}}", workers=workers)
        with DaemonProcess(site.file) as daemon:
            send(daemon, "mail")
            send(daemon, "lesson", "ham@nbstream.invalid")
            wait_until(lambda: total(daemon, "nbstream_model_tokens") > 0)
            wait_until(lambda: any(line.startswith("nbstream_stream_lag") for line in scraped(daemon)))
            for listener in ("metrics", "http"):
                lines = scraped(daemon, listener)
                families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
                series = [
                    (sample.name, *sorted(sample.labels.items()))
                    for family in families
                    for sample in family.samples
                ]
                assert len(series) == len(set(series)), "a series appears once"
                helps = {line for line in lines if line.startswith("#")}
                # When a counter began is known for one process only, and what supervises has other work.
                other = ("_created", "'reloading'", "'beat'")
                exported.append({line for line in map(str, (*series, *helps)) if not any(map(line.count, other))})
            assert daemon.stop() == 0
    assert exported[0] == exported[1] == exported[2] == exported[3]


@pytest.mark.soak
def test_a_worker_that_hangs_holds_up_no_metrics_and_is_replaced(site: Site) -> None:
    with site.running() as daemon:
        hanging, other = site.pids()
        os.kill(hanging, signal.SIGSTOP)
        for _ in range(MANY):
            assert total(daemon, "nbstream_redis_up") == 1
        wait_until(lambda: f"{hanging} (silent)" in command("status", "-c", site.file).stdout)
        replaced(daemon, 1)
        assert (gone(hanging), other in site.pids(), total(daemon, RESTARTS)) == (True, True, 1)


def test_a_stored_model_that_cannot_be_used_ends_the_daemon(site: Site) -> None:
    assert command("learn", "spam", "-c", site.file, "-", input="Subject: lesson\n\nOffer\n").returncode == 0
    site.write("model: {private_tokens: true}")

    result = command("serve", "-c", site.file)

    assert result.returncode == 78
    assert result.stderr.count("nbstream: ") == 1
    assert "Traceback" not in result.stderr, "each of two workers says so"
    assert "private_tokens" in result.stderr


def test_a_port_in_use_is_refused_by_name_also_of_a_daemon_that_shares_its_own(site: Site, tmp_path: Path) -> None:
    with site.running() as daemon:
        for workers in (1, 2):
            (tmp_path / "other.yaml").write_text(
                f"state_dir: {tmp_path / 'other'}\nworkers: {workers}\n"
                f"listeners: {{http: null, smtp: {{listen: '{daemon.address('smtp')}'}}}}\n"
            )
            result = command("serve", "-c", tmp_path / "other.yaml")
            assert result.returncode == 75
            assert "listeners.smtp.listen: cannot listen on 127.0.0.1:" in result.stderr
