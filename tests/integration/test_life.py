"""The life of a daemon: start, refusals to start, drain, kill -9."""

from __future__ import annotations

import os
import signal
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, command, free_port, gone, wait_until

MESSAGE = b"Subject: hello\r\n\r\nHow are you?\r\n"


@pytest.fixture
def config(tmp_path: Path, redis_binary: Path) -> Path:  # the daemon starts the server itself
    path = tmp_path / "nb.yaml"
    path.write_text(
        f"state_dir: {tmp_path / 'state'}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\nlog: {format: json}\n"
    )
    return path


@pytest.fixture
def daemon(config: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(config) as process:
        yield process


def send(daemon: DaemonProcess, raw: bytes = MESSAGE, recipient: str = "to@example.org") -> str:
    host, _, port = daemon.address("smtp").partition(":")
    with smtplib.SMTP(host, int(port), timeout=30) as client:
        client.ehlo("client")
        client.mail("from@example.org")
        client.rcpt(recipient)
        code, text = client.data(raw)
        return f"{code} {text.decode()}"


def redis_pid(state: Path) -> int:
    return int((state / "redis.server").read_text())


def test_sigterm_drains_stops_redis_and_exits_0(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert send(daemon).startswith("250 ")
    server = redis_pid(tmp_path / "state")

    assert daemon.stop() == 0

    assert gone(server)
    assert [event["event"] for event in daemon.events][-2:] == ["draining", "stopped"]
    # Each message is one structured line.
    (line,) = [event for event in daemon.events if event["event"] == "message"]
    assert line["verdict"] == "unsure"
    assert (line["action"], line["policy"]) == ("pass", None)
    assert line["reply"] == "250 2.0.0 Delivered to the Maildir"
    assert set(line) == {
        "time",
        "level",
        "event",
        "listener",
        "id",
        "verdict",
        "probability",
        "action",
        "policy",
        "reply",
        "milliseconds",
    }


def test_kill_9_leaves_no_orphan_and_loses_nothing_acknowledged(config: Path, tmp_path: Path) -> None:
    with DaemonProcess(config) as first:
        assert send(first, MESSAGE, "spam@nbstream.invalid").startswith("250 2.0.0 learned")
        server = redis_pid(tmp_path / "state")
    wait_until(lambda: gone(server))

    with DaemonProcess(config) as second:
        assert second.metric('nbstream_model_messages{class="spam"}') == 1
        assert send(second, MESSAGE, "spam@nbstream.invalid").startswith("250 2.0.0 already")


def test_a_redis_that_dies_comes_back_with_everything(daemon: DaemonProcess, tmp_path: Path) -> None:
    send(daemon, MESSAGE, "spam@nbstream.invalid")
    os.kill(redis_pid(tmp_path / "state"), signal.SIGKILL)

    wait_until(lambda: send(daemon, MESSAGE, "spam@nbstream.invalid").startswith("250 2.0.0 already"))

    wait_until(lambda: daemon.metric("nbstream_redis_up") == 1)


def test_an_external_redis_without_persistence_is_warned_about(tmp_path: Path, redis_binary: Path) -> None:
    port = free_port()
    server = subprocess.Popen(
        [
            redis_binary,
            "--port",
            str(port),
            "--save",
            "",
            "--maxmemory-policy",
            "allkeys-lru",
            "--dir",
            str(tmp_path),
        ],
        stdout=subprocess.DEVNULL,
    )
    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {tmp_path / 'state'}\nredis: {{url: 'redis://127.0.0.1:{port}'}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\nlog: {format: json}\n"
    )
    try:
        wait_until(lambda: command("status", "-c", config).returncode == 0)
        with DaemonProcess(config) as daemon:

            def warnings() -> str:
                return " ".join(event["event"] for event in daemon.events if event.get("level") == "warning")

            wait_until(lambda: "Redis may evict keys (maxmemory-policy allkeys-lru)" in warnings())
            assert "a restart loses everything learned" in warnings()
    finally:
        server.kill()
        server.wait()


METRICS = """
nbstream_messages_total nbstream_check_seconds_bucket nbstream_relay_seconds_bucket nbstream_relay_replies_total
nbstream_feedback_total nbstream_feedback_disagreement_total nbstream_score_probability_bucket
nbstream_model_messages nbstream_model_tokens nbstream_follower_lag_seconds nbstream_redis_up nbstream_threshold
nbstream_filter_failures_total nbstream_memory_dropped_total nbstream_build_info
nbstream_redis_refused_total nbstream_tokens_evicted_total
nbstream_policy_info nbstream_config_reloads_total nbstream_config_last_success_timestamp_seconds
nbstream_redis_refused_total nbstream_tokens_evicted_total nbstream_actions_total nbstream_quarantine_messages
nbstream_quarantine_expired_total nbstream_worker_restarts_total
"""


def test_every_promised_metric_is_exported_and_a_second_daemon_on_the_same_state_is_refused(
    daemon: DaemonProcess,
) -> None:
    send(daemon)
    send(daemon, MESSAGE, "ham@nbstream.invalid")

    text = daemon.get("/metrics")[1]

    assert [name for name in METRICS.split() if f"\n{name}{{" not in text and f"\n{name} " not in text] == []

    result = command("serve", "-c", daemon.config)

    assert result.returncode == 75
    assert "another nbstream daemon" in result.stderr


def test_the_hints_work_when_pasted_anywhere(config: Path, tmp_path: Path) -> None:
    nbstream = Path(sys.executable).with_name("nbstream")
    words = [str(nbstream), "serve", "--hints", "-c", config.name]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(6)]
        hints = [line.strip() for line in lines if line.startswith("  ")]

        assert len(hints) == 3
        script = "\n".join(hints)
        result = subprocess.run(["bash", "-euc", script], cwd="/", capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert "1 learned as spam" in result.stdout
        assert "X-Nbstream: unsure" in result.stdout
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
