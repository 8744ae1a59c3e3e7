"""Two daemons on one Redis, one of a previous release and one of this one, neither lose nor double a lesson."""

from __future__ import annotations

import json
import re
import smtplib
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.conftest import RedisServer
from tests.integration.daemon import DEADLINE_SECONDS, free_port, wait_until
from tests.integration.releases import CHECKOUT, PREVIOUS, Release, unpack
from tests.store.algebra import first_scores, first_scores_of_entries, stored, summed


def configure(name: str, redis: RedisServer, configs: Path) -> Path:
    config = configs / f"{name}.yaml"
    smtp, http = (f"'127.0.0.1:{free_port()}'" for _ in range(2))
    config.write_text(
        f"state_dir: {configs / name}\nredis: {{url: '{redis.url}'}}\nlog: {{format: json}}\n"
        f"listeners: {{smtp: {{listen: {smtp}}}, http: {{listen: {http}}}}}\n"
    )
    return config


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


@pytest.mark.soak
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
