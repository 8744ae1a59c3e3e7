"""The stream listener in use: several daemons on one Redis, and producers that know nothing of nbstream."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.handbook_pages import fenced, page
from tests.harness.redis.redis_server import RedisServer

IN, OUT, DEAD = (f"nbstream:{{default}}:{name}" for name in ("in", "out", "dead"))
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
MINUTES = 600.0


class Workers:
    """Daemons with only the stream and HTTP listeners, each with its own state folder, on one Redis."""

    def __init__(self, server: RedisServer, folder: Path, stack: ExitStack) -> None:
        self._server = server
        self._folder = folder
        self._stack = stack
        self.client = stack.enter_context(redis.Redis(unix_socket_path=str(server.socket)))

    def start(self, name: str, text: str = "") -> DaemonProcess:
        config = self._folder / f"{name}.yaml"
        config.write_text(
            f"state_dir: {self._folder / name}\nredis: {{url: '{self._server.url}'}}\n"
            "listeners: {smtp: null, http: {listen: '127.0.0.1:0'}, stream: {}}\n"
            f"log: {{format: json}}\nmodel: {{min_learned: 0}}\n{text}\n"
        )
        return self._stack.enter_context(DaemonProcess(config))

    def add(self, numbers: range, labelled: int) -> None:
        """Add texts with their number as id; each number divisible by ``labelled`` has a label."""
        for first in range(0, len(numbers), 500):
            with self.client.pipeline(transaction=False) as pipe:
                for number in numbers[first : first + 500]:
                    entry = {"id": str(number), "text": f"text {number} of {number % 7} and {number % 13}"}
                    if number % labelled == 0:
                        entry["label"] = "spam" if number % 2 else "ham"
                    pipe.xadd(IN, entry)
                pipe.execute()

    def answers(self) -> list[dict[bytes, bytes]]:
        return [fields for _, fields in self.client.xrange(OUT)]

    def learned(self) -> int:
        """Return the number of messages that the model has learned."""
        totals = self.client.hgetall("nbstream:{default}:totals")
        return sum(int(value) for name, value in totals.items() if name.startswith(b"messages:"))


@pytest.fixture
def workers(own_redis: RedisServer, tmp_path: Path) -> Iterator[Workers]:
    own_redis.stop()
    own_redis.start(*DURABLE)
    with ExitStack() as stack:
        yield Workers(own_redis, tmp_path, stack)


def check_that_three_workers_survive_one(workers: Workers, count: int, labelled: int) -> None:
    daemons = [workers.start(f"worker{number}") for number in range(3)]
    workers.add(range(count), labelled)
    wait_until(lambda: workers.client.xlen(OUT) > count // 5, MINUTES)

    daemons[0].kill()
    wait_until(lambda: workers.client.xlen(IN) == 0, MINUTES)

    answers = workers.answers()
    assert sorted(int(answer[b"id"]) for answer in answers) == list(range(count))
    assert all(b"verdict" in answer for answer in answers)
    lessons = [answer for answer in answers if b"outcome" in answer]
    assert len(lessons) == workers.learned() == len(range(0, count, labelled))
    assert workers.client.xlen("nbstream:{default}:history") == len(lessons)
    assert {answer[b"outcome"] for answer in lessons} <= {b"learned", b"already"}
    assert workers.client.xpending(IN, "nbstream")["pending"] == 0
    assert sum(daemon.metric('nbstream_stream_entries_total{outcome="claimed"}') for daemon in daemons[1:]) > 0
    assert all(daemon.metric('nbstream_stream_entries_total{outcome="answered"}') for daemon in daemons[1:])


@pytest.mark.soak
def test_three_workers_one_killed_answer_2_000_entries_once(workers: Workers) -> None:
    check_that_three_workers_survive_one(workers, 2000, labelled=5)


def ready(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.RedisError:  # it is still loading its data
        return False


def test_the_example_with_redis_cli_works_as_it_stands(
    tmp_path_factory: pytest.TempPathFactory, redis_binary: Path, program: Callable[[str], str]
) -> None:
    program("redis-cli")
    tmp_path = tmp_path_factory.mktemp("cli")  # a short name: a socket's path has at most 107 bytes
    (example,) = fenced(page("guides/programs.md"), "shell")
    state = tmp_path / ".local/state/nbstream"
    config = tmp_path / "nbstream.yaml"
    config.write_text(
        f"state_dir: {state}\nlisteners: {{smtp: null, http: {{listen: '127.0.0.1:0'}}, stream: {{}}}}\n"
        "log: {format: json}\n"
    )
    (tmp_path / "prize.eml").write_text("Subject: You have won\n\nClaim your prize.\n")
    with DaemonProcess(config) as daemon:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", example],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        wait_until(lambda: daemon.metric('nbstream_stream_entries_total{outcome="answered"}') == 3)

        wait_until(lambda: daemon.metric("nbstream_stream_lag") == daemon.metric("nbstream_stream_pending") == 0)
        assert "\nnbstream_stream_lag 0.0\n" in daemon.get("/metrics")[1]
        assert daemon.metric('nbstream_messages_total{listener="stream",verdict="unsure"}') == 3
        assert daemon.stop() == 0

    assert "sms 1" in result.stdout
    assert "learning 0/100" in result.stdout
    lesson = next(event for event in daemon.events if event["event"] == "feedback")
    assert (lesson["source"], lesson["label"], lesson["outcome"]) == ("stream", "spam", "learned")
    line = next(event for event in daemon.events if event["event"] == "message")
    assert set(line) == {
        *("time", "level", "event", "listener", "entry", "id", "verdict", "probability", "outcome", "error"),
        "milliseconds",
    }
