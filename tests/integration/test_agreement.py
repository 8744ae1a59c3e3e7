"""What users teach everybody, in a real daemon: taught and taken back by HTTP, with two workers."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from nbstream.own_models.agreement import AgreementKeys
from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess
from tests.own_models.test_agreement import copy_for


@dataclass(frozen=True)
class Site:
    daemon: DaemonProcess
    redis: Redis

    def teach(self, user: int, label: str) -> None:
        """The user teaches his copy of a mailing."""
        self.post(f"/v1/learn?label={label}", user, f"user{user}@example.org")

    def take_back(self, user: int) -> None:
        self.post("/v1/unlearn", user, f"user{user}@example.org")

    def post(self, path: str, copy: int, user: str = "") -> dict[str, Any]:
        fields = {"Content-Type": "message/rfc822"} | ({"User": user} if user else {})
        request = urllib.request.Request(
            f"http://{self.daemon.address('http')}{path}", copy_for(copy).raw, fields, method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return answer

    def counted(self, outcome: str) -> float:
        return self.daemon.metric(f'nbstream_agreements_total{{label="spam",outcome="{outcome}"}}')


@pytest.fixture
def site(own_redis: RedisServer, tmp_path: Path) -> Iterator[Site]:
    config = tmp_path / "nbstream.yaml"
    config.write_text(
        json.dumps(
            {
                "state_dir": str(tmp_path / "state"),
                "redis": {"url": own_redis.url},
                "workers": 2,
                "listeners": {"http": {"listen": "127.0.0.1:0"}, "smtp": {"listen": "127.0.0.1:0"}},
                "models": [{"match": "*@example.org", "name": "{domain}/{local}"}],
                "own_models": {"shared_by": 3},
            }
        )
    )
    with DaemonProcess(config) as daemon, Redis.from_url(own_redis.url) as redis:
        redis.set(AgreementKeys("default").secret, b"s" * 32)  # else a copy in fifty is none, by chance
        yield Site(daemon, redis)


def test_what_three_users_teach_is_everybodys_until_one_takes_it_back(site: Site) -> None:
    keys = {"nbstream:{default}:counts:spam", "nbstream:{default}:counts:ham"}
    for user in (1, 2):
        site.teach(user, "spam")
    assert not any(site.redis.exists(key) for key in keys)

    for user in (3, 4):
        site.teach(user, "spam")

    words = repr(site.redis.hkeys("nbstream:{default}:counts:spam"))
    assert "body:bargains" in words
    assert "secretlink" not in words
    assert site.counted("learned") == 1
    for user in (1, 2):
        site.take_back(user)
    assert not any(site.redis.exists(key) for key in keys)
    assert site.counted("unlearned") == 1


def test_users_who_teach_at_the_same_moment_teach_everybody_once_and_take_all_back(site: Site) -> None:
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda user: site.teach(user, "spam"), range(12)))
        totals = site.redis.hgetall("nbstream:{default}:totals")
        list(pool.map(site.take_back, range(12)))

    assert totals[b"messages:spam"] == b"1"
    assert not site.redis.exists("nbstream:{default}:counts:spam")
    assert site.counted("learned") == site.counted("unlearned")
    assert site.counted("failed") == 0


def test_a_daemon_without_the_setting_shares_nothing(site: Site) -> None:
    config = site.daemon.config
    settings = json.loads(config.read_text()) | {"own_models": {}}
    site.daemon.kill()
    config.write_text(json.dumps(settings))
    with DaemonProcess(config) as daemon:
        alone = Site(daemon, site.redis)
        for user in range(6):
            alone.teach(user, "spam")

    assert not site.redis.keys("nbstream:{default}:agreement:votes:*")
    assert not site.redis.exists("nbstream:{default}:counts:spam")
