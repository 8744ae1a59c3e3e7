"""A daemon whose own Redis loads for long, or does not answer, serves mail by the checkpoint meanwhile."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from redis import Redis

from nbstream.assembly.filter import open_one_shot_filter
from nbstream.cli.exit_codes import EX_CONFIG
from nbstream.config import load_settings
from nbstream.engine.choice import LIBRARY_FILE
from nbstream.store.mirror.checkpoint_writer import LEAST_TOKENS
from tests.conftest import missing
from tests.integration.daemon import DaemonProcess, command, send, wait_until

MESSAGE = b"Subject: hello\n\nHow are you?\n"
BLOCKED = "blocked.example"

# As long as the file ``slow`` is there, the server loads for some minutes, and answers once a second: it looks for
# connections after each 1,024 commands of its file. As long as ``slow.silent`` is there it answers nothing.
SLOW_SERVER = """#!/bin/sh
case "$1" in --version) exec {server} --version;; esac
while [ -e {slow}.silent ]; do sleep 0.1; done
if [ -e {slow} ]; then set -- "$@" --key-load-delay 1000; fi
exec {server} "$@"
"""


@pytest.fixture
def slow(tmp_path: Path, redis_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with which the embedded server, once started, loads for minutes."""
    if not LIBRARY_FILE.exists():
        missing("the native library")
    programs, slow = tmp_path / "programs", tmp_path / "slow"
    programs.mkdir()
    server = programs / redis_binary.name
    server.write_text(SLOW_SERVER.format(server=redis_binary, slow=slow))
    server.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return slow


async def teach(config: Path) -> None:
    """A model with a checkpoint: made-up counts, each by a command of its own, and one lesson."""
    async with open_one_shot_filter(load_settings(config), sign=True):
        with Redis(unix_socket_path=str(config.parent / "state" / "redis" / "redis.sock")) as client:
            pipe = client.pipeline(transaction=False)
            for number in range(LEAST_TOKENS):
                pipe.hset("nbstream:{default}:counts:ham", f"body:{number}", 1000)
            totals = {"tokens:ham": 1000 * LEAST_TOKENS, "vocabulary": LEAST_TOKENS, "messages:ham": 100}
            pipe.hset("nbstream:{default}:totals", mapping=totals)
            pipe.execute()
        learned = command("learn", "-c", config, "ham", "-", input=MESSAGE.decode())
        assert learned.returncode == 0
        assert command("list", "add", "-c", config, "block", BLOCKED).returncode == 0


def write_config(folder: Path, workers: int) -> Path:
    config = folder / "nb.yaml"
    config.write_text(
        f"state_dir: {folder / 'state'}\nworkers: {workers}\nlog: {{format: json}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\n"
    )
    return config


@pytest.mark.parametrize("workers", [1, 2])
async def test_mail_is_scored_by_the_checkpoint_while_the_own_redis_loads_and_kills_lose_nothing(
    tmp_path: Path, slow: Path, workers: int
) -> None:
    config = write_config(tmp_path, workers)
    await teach(config)
    checkpoints = tmp_path / "state" / "checkpoints"
    with DaemonProcess(config) as daemon:
        wait_until(
            lambda: (checkpoints / "counts").exists() and BLOCKED in (checkpoints / "sender-lists").read_text()
        )
        assert send(daemon, [("spam@nbstream.invalid", b"Subject: new\n\nA late lesson.\n")])
        assert daemon.stop() == 0

    slow.touch()
    with DaemonProcess(config) as daemon:
        status, body = daemon.get("/readyz")
        assert (status, json.loads(body)["ready"]) == (200, True)
        assert "counts are those of the checkpoint" in json.loads(body)["degraded"]["redis"]
        from_blocked = b"From: a@%b\n%b" % (BLOCKED.encode(), MESSAGE)
        mail = [("a@example.org", MESSAGE), ("a@example.org", from_blocked)]
        verdicts = [reply.partition(" verdict=")[2].split()[0] for reply in send(daemon, mail, with_verdict=True)]
        assert verdicts == ["unsure", "spam"]
        assert daemon.metric("nbstream_redis_up") == 0
        assert daemon.metric("nbstream_mirror_lag_seconds") > 0
        assert daemon.metric('nbstream_model_messages{class="ham"}') == 101
        assert daemon.metric('nbstream_model_messages{class="spam"}') == 0  # the late lesson is not known yet
        with pytest.raises(AssertionError, match="Learning is not possible now"):
            send(daemon, [("spam@nbstream.invalid", MESSAGE)])
        os.kill(int((tmp_path / "state" / "redis.server").read_text()), signal.SIGKILL)
        daemon.kill()

    with DaemonProcess(config) as daemon:
        assert "redis" in json.loads(daemon.get("/readyz")[1])["degraded"]
        slow.unlink()
        os.kill(int((tmp_path / "state" / "redis.server").read_text()), signal.SIGKILL)
        wait_until(lambda: json.loads(daemon.get("/readyz")[1]) == {"ready": True, "degraded": {}})
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == 1)
        send(daemon, [("spam@nbstream.invalid", MESSAGE)])
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == 2)


async def test_mail_is_scored_by_the_checkpoint_while_the_own_redis_does_not_answer(
    tmp_path: Path, slow: Path
) -> None:
    config, silent = write_config(tmp_path, workers=1), slow.with_suffix(".silent")
    await teach(config)
    with DaemonProcess(config) as daemon:
        wait_until((tmp_path / "state" / "checkpoints" / "counts").exists)
        assert daemon.stop() == 0

    silent.touch()
    with DaemonProcess(config) as daemon:
        assert "counts are those of the checkpoint" in json.loads(daemon.get("/readyz")[1])["degraded"]["redis"]
        send(daemon, [("a@example.org", MESSAGE)])
        silent.unlink()
        wait_until(lambda: json.loads(daemon.get("/readyz")[1]) == {"ready": True, "degraded": {}})
        assert daemon.metric('nbstream_model_messages{class="ham"}') == 101
        assert send(daemon, [("spam@nbstream.invalid", MESSAGE)])


def test_a_model_that_cannot_be_used_ends_the_daemon_once_redis_has_loaded_it(tmp_path: Path, slow: Path) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(f"state_dir: {tmp_path / 'state'}\nlisteners: {{smtp: {{listen: 127.0.0.1:0}}}}\n")
    with DaemonProcess(config) as daemon:
        with Redis(unix_socket_path=str(tmp_path / "state" / "redis" / "redis.sock")) as client:
            pipe = client.pipeline(transaction=False)
            for number in range(3000):  # with its delays some seconds
                pipe.hset("nbstream:{default}:counts:ham", f"body:{number}", 1000)
            pipe.hset("nbstream:{default}:schema", "schema", "99")
            pipe.execute()
        assert daemon.stop() == 0
    slow.touch()
    daemon = DaemonProcess(config)
    try:
        assert daemon.wait() == EX_CONFIG
        assert any("was learned with" in event["event"] for event in daemon.events)
    finally:
        daemon.kill()
