"""A store that is full: mail is scored on, feedback is deferred, and nothing is lost or counted twice."""

from __future__ import annotations

import json
from pathlib import Path

from redis import Redis

from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.harness.redis.redis_server import RedisServer
from tests.integration.test_life import send

FEEDBACK = "spam@nbstream.invalid"
CHECKED = "nbstream_score_probability_count"
KNOWN = 'nbstream_model_messages{class="spam"}'
FAILED = 'nbstream_feedback_total{label="spam",outcome="failed",source="smtp"}'
LEARNED = 'nbstream_feedback_total{label="spam",outcome="learned",source="smtp"}'


def letter(number: int) -> bytes:
    words = " ".join(f"word{number}x{n}" for n in range(300))
    return f"Subject: letter {number}\r\n\r\n{words}\r\n".encode()


def configure(folder: Path, state: Path, redis: str = "embedded") -> Path:
    path = folder / "nb.yaml"
    path.write_text(
        f"state_dir: {state}\nredis: {{url: '{redis}'}}\nrelay: {{next_hop: 'maildir:{folder / 'mail'}'}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\nlog: {format: json}\n"
    )
    return path


def told(daemon: DaemonProcess, text: str) -> list[str]:
    return [event["event"] for event in daemon.events if text in event["event"]]


def test_a_redis_out_of_memory_defers_feedback_and_nothing_else(tmp_path: Path, own_redis: RedisServer) -> None:
    config = configure(tmp_path, tmp_path / "state", own_redis.url)
    with Redis(unix_socket_path=str(own_redis.socket)) as client, DaemonProcess(config) as daemon:
        assert send(daemon, letter(0), FEEDBACK).startswith("250 ")
        client.config_set("maxmemory", "1")

        for _ in range(3):
            assert send(daemon, letter(1), FEEDBACK).startswith("451 4.3.0 Learning is not possible now")
            assert send(daemon, letter(1)).startswith("250 ")
        assert daemon.metric(CHECKED) == 3
        assert daemon.metric("nbstream_redis_refused_total") == daemon.metric(FAILED) == 3
        assert daemon.metric("nbstream_redis_up") == 1
        degraded = {"redis": "writes are refused; feedback is deferred"}
        assert json.loads(daemon.get("/readyz")[1]) == {"ready": True, "degraded": degraded}
        assert told(daemon, "follower: ") == []
        assert daemon.metric('nbstream_filter_failures_total{reason="store"}') == 0
        assert len(told(daemon, "training is disabled, scoring continues: ")) == 1
        assert len(told(daemon, "checked messages are not remembered now: ")) == 1
        assert command("learn", "spam", "-c", config, "-", input=letter(2).decode()).returncode == 75
        assert command("check", "-c", config, "-", input=letter(1).decode()).returncode == 0

        with DaemonProcess(configure(tmp_path, tmp_path / "second", own_redis.url)) as second:
            assert second.metric(KNOWN) == 1  # it starts, and has all counts
            assert send(second, letter(1)).startswith("250 ")
            assert second.metric(CHECKED) == 1

        client.config_set("maxmemory", "0")
        # Nobody has to teach for that: what is remembered of a checked message is written too.
        assert send(daemon, letter(1)).startswith("250 ")
        wait_until(lambda: json.loads(daemon.get("/readyz")[1]) == {"ready": True, "degraded": {}})
        assert " learned as spam" in send(daemon, letter(1), FEEDBACK)
        assert " already learned as spam" in send(daemon, letter(1), FEEDBACK)
        assert daemon.metric(KNOWN) == 2
        assert daemon.metric(LEARNED) == 2
        assert len(told(daemon, "training is enabled again")) == 1
