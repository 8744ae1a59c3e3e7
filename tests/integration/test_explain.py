"""A verdict of a real daemon explains itself: on the message, and to whoever has its id."""

from __future__ import annotations

import json
import math
import re
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.harness.daemon import DaemonProcess, command, send, wait_until, write_config
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

SPAM, HAM, READER = "spam@nbstream.invalid", "ham@nbstream.invalid", "ann@example.org"


@pytest.fixture
def redis(own_redis: RedisServer) -> Any:
    with Redis(unix_socket_path=str(own_redis.socket)) as client:
        yield client


def taught(daemon: DaemonProcess) -> None:
    send(daemon, [(SPAM if label == "spam" else HAM, raw) for label, raw in samples(120)])


def delivered(daemon: DaemonProcess, raw: bytes) -> tuple[Message, str]:
    """A message as its reader has it, and its id."""
    folder = daemon.config.parent / "state" / "Maildir" / "new"
    before = set(folder.glob("*"))
    send(daemon, [(READER, raw)])
    (arrived,) = set(folder.glob("*")) - before
    message = message_from_bytes(arrived.read_bytes())
    found = re.search(r"id=([a-z2-7]{24})$", message["X-Nbstream"])
    assert found
    return message, found[1]


def config(tmp_path: Path, own_redis: RedisServer, **settings: str) -> Path:
    return write_config(tmp_path, **{"redis": f"{{url: '{own_redis.url}'}}", **settings})


def test_the_header_and_the_command_tell_the_same_of_a_message_after_the_model_has_changed(
    tmp_path: Path, own_redis: RedisServer, redis: Any
) -> None:
    _, letter = next(samples(1, seed=9))
    with DaemonProcess(config(tmp_path, own_redis)) as daemon:
        taught(daemon)
        message, message_id = delivered(daemon, letter)
        wait_until(lambda: redis.exists(f"nbstream:{{default}}:checked:{message_id}"))
        send(daemon, [(SPAM, letter)])
        (tmp_path / "letter.eml").write_bytes(letter)
        words = ("explain", "-c", daemon.config, "--json", message_id, tmp_path / "letter.eml")
        by_id, by_path = (json.loads(line) for line in command(*words).stdout.splitlines())
        text = command("explain", "-c", daemon.config, message_id)

    then = by_id["then"]
    head = re.match(r'(\w+); probability=([\d.]+); reason="(.*)";', message["X-Nbstream"])
    assert head is not None
    assert head.groups() == (then["verdict"], f"{then['probability']:.6f}", then["reason"])
    assert abs(math.fsum([then["prior"], *(clue["log_ratio"] for clue in then["clues"])]) - then["score"]) < 1e-9
    told = [line.split() for line in message["X-Nbstream-Clues"].replace("\r\n", "").split(",")]
    assert [weight for _, weight in told] == [f"{clue['log_ratio']:+.2f}" for clue in then["clues"][:8]]
    assert told[0][0] == then["clues"][0]["token"]
    assert by_id["now"]["score"] != then["score"]
    assert by_id["learned"]["label"] == by_path["learned"]["label"] == "spam"
    assert by_path["then"] == then
    assert by_path["now"]["clues"] == by_id["now"]["clues"]
    score, probability = f"{then['score']:+.2f}", f"{then['probability']:.6f}"
    assert f"score {score} -> probability {probability} -> {then['verdict']}\n" in text.stdout
    assert (text.returncode, text.stderr) == (0, "")
