"""``nbstream bench`` as a user meets it: a small run on this machine, which leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from redis import Redis

from nbstream.cli.exit_codes import EX_INTERRUPTED, EX_NOINPUT, EX_USAGE
from tests.benchmarks.speed.processes import family
from tests.conftest import RedisServer
from tests.letters import write_corpus
from tests.waiting import DEADLINE_SECONDS

SMALL = ("--messages", "24")


@pytest.fixture
def config(tmp_path: Path, shared_redis: RedisServer) -> Path:
    """A configuration with a state folder, and a Redis and a listener of another daemon."""
    (tmp_path / "state").mkdir()
    path = tmp_path / "nb.yaml"
    path.write_text(
        f"state_dir: {tmp_path / 'state'}\nredis: {{url: '{shared_redis.url}'}}\nlisteners: {{smtp: null}}\n"
    )
    return path


def command(config: Path) -> Sequence[str]:
    program = ("env", "--default-signal=INT", sys.executable, "-P", "-m", "nbstream.cli")
    return (*program, "bench", "-c", str(config))


def started(config: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command(config), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def done(config: Path, *arguments: str) -> tuple[int, str, str]:
    process = started(config, *arguments)
    out, err = process.communicate(timeout=5 * DEADLINE_SECONDS)
    return process.returncode, out, err


def left(config: Path) -> Sequence[Path]:
    return list((config.parent / "state").iterdir())


def test_it_measures_with_generated_mail_and_leaves_model_and_state_folder_alone(
    config: Path, shared_redis: RedisServer
) -> None:
    with Redis(unix_socket_path=str(shared_redis.socket)) as client:
        client.flushall()

        code, out, err = done(config, *SMALL, "--json")

        assert client.dbsize() == 0
    result = json.loads(out)
    assert code == 0
    assert err == (
        "nothing of your model is read or changed: this measures with a private Redis, removed at the end\n"
    )
    assert left(config) == []
    assert (result["messages"], result["taught"]) == (24, 12)
    for cost in (result["check"], result["lesson"]):
        assert 0 < cost["p50"] <= cost["p99"]
        assert 0 < cost["mean"] <= cost["p99"] * 1.01


def test_mail_of_ones_own_is_measured_and_a_path_that_cannot_be_read_is_an_error(
    config: Path, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "mail", 30)

    code, out, err = done(config, "--mail", str(tmp_path / "mail"), str(tmp_path / "none"))

    assert code == EX_NOINPUT
    assert out.startswith("31 messages, in the mean of ")  # the index among them
    assert [line.split()[:2] for line in out.splitlines()[2:4]] == [["a", "check"], ["a", "lesson"]]
    assert err.splitlines()[-1] == f"nbstream: {tmp_path / 'none'}: No such file or directory"


def test_ctrl_c_ends_it_in_order_and_nothing_is_left(config: Path) -> None:
    process = started(config, "--messages", "4000")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("nothing of your model")
    while not left(config):  # it has begun; ended by the timeout of the test
        assert process.poll() is None
        time.sleep(0.01)  # another process has no event to wait on
    pids = family(process.pid)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)

    assert (process.returncode, out, err) == (EX_INTERRUPTED, "", "")
    assert left(config) == []
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists() and pid != os.getpid()]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--messages", "19"], EX_USAGE, "nbstream bench: --messages must be at least 20"),
        (["--mail", "/no/such"], EX_NOINPUT, "nbstream: /no/such: No such file or directory"),
        (["--mail", "{few}"], EX_NOINPUT, "nbstream: 4 messages are too few: 20 are needed"),
    ],
)
def test_what_cannot_be_measured_with_is_refused_before_anything_starts(
    config: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    write_corpus(tmp_path / "few", 3)

    result, out, err = done(config, *(word.format(few=tmp_path / "few") for word in arguments))

    assert (result, out) == (code, "")
    assert err.splitlines()[-1] == said
    assert left(config) == []
