"""Two daemons on one Redis, one of a previous release and one of this one, neither lose nor double a lesson.

The previous releases are taken from the history of the checkout, and run with the packages of this one: the last
one, and the last one whose models have schema 2.
"""

from __future__ import annotations

import json
import re
import smtplib
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import nbstream
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.conftest import RedisServer
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, free_port, wait_until
from tests.letters import letters
from tests.store.algebra import NOTHING, first_scores, first_scores_of_entries, stored, summed

PREVIOUS = "0.5.0", "24061f2d1c583243cf3dd1ac2a6da488d995e2ef"
"""The version of the previous release, and its commit."""

OF_SCHEMA_2 = "0.4.0", "1aa30ead9f85d51606ee6a3a33ac2d23bd61a1c7"
"""The last release whose models have schema 2."""

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


def unpack(release: tuple[str, str], folder: Path) -> Path:
    """Return the folder with the code of a release."""
    version, commit = release
    packed = subprocess.run(
        ["git", "-C", str(CHECKOUT), "archive", commit, "nbstream"], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the checkout does not have the commit of {version}")
    (folder / version).mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder / version)], input=packed.stdout, check=True)
    return folder / version


def configure(name: str, redis: RedisServer, configs: Path) -> Path:
    config = configs / f"{name}.yaml"
    smtp, http = (f"'127.0.0.1:{free_port()}'" for _ in range(2))
    config.write_text(
        f"state_dir: {configs / name}\nredis: {{url: '{redis.url}'}}\nlog: {{format: json}}\n"
        f"listeners: {{smtp: {{listen: {smtp}}}, http: {{listen: {http}}}}}\n"
    )
    return config


@pytest.fixture
def previous(own_redis: RedisServer, tmp_path: Path) -> Release:
    return Release(unpack(OF_SCHEMA_2, tmp_path), configure("previous", own_redis, tmp_path))


@pytest.fixture
def present(own_redis: RedisServer, tmp_path: Path) -> Release:
    return Release(CHECKOUT, configure("present", own_redis, tmp_path))


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


class Teacher(threading.Thread):
    """Teaches messages at a host, each until it is acknowledged, and sends mail there, until it shall end."""

    def __init__(self, name: str, http: str, smtp: str) -> None:
        super().__init__(name=name)
        self.http, self.smtp = http, smtp
        self.outcomes: list[str] = []
        self.mails: dict[str, bool] = {}
        self.fault: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                number = len(self.outcomes)
                raw = f"Subject: {self.name}-{number}.\r\n\r\nLesson {number} of {self.name}.\r\n".encode()
                self.outcomes.append(self._teach(raw, ("spam", "ham")[number % 2]))
                self.mails[f"{self.name}-{number}."] = self._send(raw)
        except BaseException as fault:  # noqa: BLE001 - the test raises it
            self.fault = fault

    def _teach(self, raw: bytes, label: str) -> str:
        request = urllib.request.Request(f"http://{self.http}/v1/learn?label={label}", data=raw, method="POST")
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as response:
                    return str(json.loads(response.read())["outcome"])
            except OSError:  # nobody listens, or a 503
                assert time.monotonic() < end, "the host does not come back"
                self.ended.wait(0.05)

    def _send(self, raw: bytes) -> bool:
        host, _, port = self.smtp.rpartition(":")
        with suppress(OSError), closing(smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS)) as connection:
            connection.ehlo("client")
            connection.mail("a@example.org")
            connection.rcpt("b@example.org")
            return connection.data(raw)[0] == 250
        return False


async def test_hosts_are_upgraded_and_taken_back_one_after_the_other_while_lessons_and_mail_go_on(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "default", 3600)
    previous_folder = unpack(PREVIOUS, tmp_path)
    configs = [configure(name, own_redis, tmp_path) for name in ("one", "other")]
    hosts = [Release(previous_folder, config).daemon().ready() for config in configs]
    teachers = [Teacher(f"t{i}", host.address("http"), host.address("smtp")) for i, host in enumerate(hosts)]
    try:
        for teacher in teachers:
            teacher.start()
        for step, folder in ((0, CHECKOUT), (1, CHECKOUT), (0, previous_folder)):
            wanted = [len(teacher.outcomes) + 15 for teacher in teachers]
            wait_until(lambda wanted=wanted: all_have(teachers, wanted))
            assert hosts[step].stop() == 0
            hosts[step].kill()
            hosts[step] = Release(folder, configs[step]).daemon().ready()
        wanted = [len(teacher.outcomes) + 15 for teacher in teachers]
        wait_until(lambda: all_have(teachers, wanted))
    finally:
        for teacher in teachers:
            teacher.ended.set()
            teacher.join(DEADLINE_SECONDS)
        codes = [host.stop() for host in hosts]
        for host in hosts:
            host.kill()
    assert ([teacher.fault for teacher in teachers], codes) == ([None, None], [0, 0])

    assert {outcome for teacher in teachers for outcome in teacher.outcomes} <= {"learned", "already"}
    lessons = sum(len(teacher.outcomes) for teacher in teachers)
    assert await stored(model) == await summed(model)
    assert sum((await model.totals()).messages) == lessons
    assert await client.xlen(model.keys.history) == lessons
    assert await first_scores(model) == await first_scores_of_entries(model)
    for teacher, config in zip(teachers, configs, strict=True):
        texts = [path.read_text() for path in (tmp_path / config.stem / "Maildir" / "new").iterdir()]
        delivered = [re.findall("^Subject: (.*)$", text, re.MULTILINE)[0] for text in texts]
        assert len(set(delivered)) == len(delivered)
        assert {subject for subject, taken in teacher.mails.items() if taken} <= set(delivered)
    await client.aclose()


def all_have(teachers: Sequence[Teacher], wanted: Sequence[int]) -> bool:
    return all(
        teacher.fault or len(teacher.outcomes) >= count for teacher, count in zip(teachers, wanted, strict=True)
    )
