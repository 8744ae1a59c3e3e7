"""Two daemons on one Redis, one of the previous release and one of this one, neither lose nor double a lesson.

The previous release is taken from the history of the checkout, and runs with the packages of this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import nbstream
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.conftest import RedisServer
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess
from tests.letters import letters
from tests.store.algebra import NOTHING, first_scores, first_scores_of_entries, stored, summed

PREVIOUS = "0.4.0", "1aa30ead9f85d51606ee6a3a33ac2d23bd61a1c7"
"""The version of the previous release, and its commit."""

CHECKOUT = Path(nbstream.__file__).parents[1]


@dataclass(frozen=True)
class Release:
    """A release of nbstream in a folder, with a configuration of its own for the common Redis."""

    folder: Path
    config: Path

    @property
    def words(self) -> tuple[str, ...]:
        """What runs a program of this release: Python looks into the present folder first."""
        return "env", "-C", str(self.folder)

    def command(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [*self.words, sys.executable, "-m", "nbstream.cli", *map(str, arguments), "-c", str(self.config)]
        return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)

    def daemon(self) -> DaemonProcess:
        return DaemonProcess(self.config, *self.words)


@pytest.fixture(scope="session")
def previous_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the previous release."""
    version, commit = PREVIOUS
    packed = subprocess.run(
        ["git", "-C", str(CHECKOUT), "archive", commit, "nbstream"], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the checkout does not have the commit of {version}")
    folder = tmp_path_factory.mktemp(version)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder


def release(folder: Path, name: str, redis: RedisServer, configs: Path) -> Release:
    config = configs / f"{name}.yaml"
    config.write_text(
        f"state_dir: {configs / name}\nredis: {{url: '{redis.url}'}}\nlog: {{format: json}}\n"
        "listeners: {smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}}\n"
    )
    return Release(folder, config)


@pytest.fixture
def previous(previous_folder: Path, own_redis: RedisServer, tmp_path: Path) -> Release:
    return release(previous_folder, "previous", own_redis, tmp_path)


@pytest.fixture
def present(own_redis: RedisServer, tmp_path: Path) -> Release:
    return release(CHECKOUT, "present", own_redis, tmp_path)


@pytest.fixture
def labelled(tmp_path: Path) -> list[tuple[str, Path]]:
    """Messages in files, with their labels."""
    files = []
    for number, (label, raw) in enumerate(letters(60)):
        files.append((label, tmp_path / f"{number}.eml"))
        files[-1][1].write_bytes(raw)
    return files


def post(daemon: DaemonProcess, path: str, file: Path) -> Any:
    url, raw = f"http://{daemon.address('http')}/v1/{path}", file.read_bytes()
    with urllib.request.urlopen(
        urllib.request.Request(url, data=raw, method="POST"), timeout=DEADLINE_SECONDS
    ) as response:
        return json.loads(response.read())


def probabilities(daemon: DaemonProcess, files: Sequence[Path]) -> list[float]:
    return [post(daemon, "check", file)["probability"] for file in files]


def post_to_all(daemons: Sequence[DaemonProcess], requests: Sequence[tuple[str, Path]]) -> None:
    """Give each request to all daemons at nearly the same moment."""
    with ThreadPoolExecutor(2 * len(daemons)) as pool:
        answers = [pool.submit(post, daemon, *request) for request in requests for daemon in daemons]
        for answer in answers:
            answer.result()


def files_of(labelled: Sequence[tuple[str, Path]], label: str) -> list[Path]:
    return [file for file_label, file in labelled if file_label == label]


async def test_they_teach_one_model_of_schema_2_at_once(
    previous: Release, present: Release, own_redis: RedisServer, labelled: list[tuple[str, Path]]
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "default", 3600)
    with previous.daemon() as old, present.daemon() as new, ThreadPoolExecutor(2) as pool:
        post_to_all([old, new], [(f"learn?label={label}", file) for label, file in labelled[:20]])
        for label in ("spam", "ham"):
            files = files_of(labelled[10:], label)
            for learning in [pool.submit(one.command, "learn", label, *files) for one in (previous, present)]:
                assert learning.result().returncode == 0, learning.result().stderr
        assert await stored(model) == await summed(model)
        assert sum((await model.totals()).messages) == len(labelled)
        assert await first_scores(model) == await first_scores_of_entries(model)
        assert await client.hget(model.keys.schema, "schema") == b"2"
        files = [file for _, file in labelled]
        assert probabilities(old, files[:5]) == pytest.approx(probabilities(new, files[:5]))

        post_to_all([old, new], [("unlearn", file) for file in files[:20]])
        assert previous.command("unlearn", *files[20:40]).returncode == 0
        assert present.command("unlearn", *files[40:]).returncode == 0
        assert await stored(model) == NOTHING
        assert (old.stop(), new.stop()) == (0, 0)
    await client.aclose()


async def test_the_previous_release_refuses_batches_until_the_model_is_migrated_back(
    previous: Release, present: Release, own_redis: RedisServer, labelled: list[tuple[str, Path]]
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    model, files = Model(client, "default", 3600), files_of(labelled, "spam")
    assert previous.command("learn", "ham", *files_of(labelled, "ham")).returncode == 0

    migrated, learned = present.command("migrate"), present.command("learn", "spam", *files)
    assert (migrated.returncode, learned.returncode) == (0, 0), (migrated.stderr, learned.stderr)
    assert await client.xlen(model.keys.changes) == len(labelled) - len(files) + 1
    refused = previous.command("learn", "ham", *files)
    assert refused.returncode
    assert "was learned with schema 3 (this is 2)" in refused.stderr

    assert present.command("migrate", "--back").returncode == 0
    with previous.daemon() as old:
        post_to_all([old], [("unlearn", file) for file in files[:3]])
    assert previous.command("unlearn", *files[3:]).returncode == 0
    assert await stored(model) == await summed(model)
    assert sum((await model.totals()).messages) == len(labelled) - len(files)
    await client.aclose()
