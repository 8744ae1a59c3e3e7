"""The view now of a daemon with two workers: they count together, it is kept up to date, and a drain ends that."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from pathlib import Path

import pytest
from redis import Redis

from nbstream.store.model.keys import ModelKeys
from tests.conftest import RedisServer
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, wait_until
from tests.integration.page_client import link_token, login_link
from tests.integration.workers import LISTENERS, Site, send

MANY = 12


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


class Reader:
    """Somebody who has logged in with a link; each request has a connection of its own."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.address = daemon.address("http")
        link = link_token(login_link(daemon, read_only=True))
        form = urllib.parse.urlencode({"link": link, "to": "/ui/"})
        with self.ask("POST", "/ui/login", form, Origin=f"http://{self.address}") as answer:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    cookie = ""

    def ask(self, method: str, path: str, body: str | None = None, **fields: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.address, timeout=DEADLINE_SECONDS)
        headers = {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        connection.request(method, path, body, {**headers, "Connection": "close", **fields})
        return connection.getresponse()

    def metrics(self) -> str:
        with self.ask("GET", "/metrics") as answer:
            return answer.read().decode()

    def show(self) -> str:
        with self.ask("GET", "/ui/") as answer:
            return answer.read().decode()


def checks(html: str) -> int:
    """The number of messages of the last hour."""
    found = re.search(r'class="figure">([\d,]+)<', html)
    assert found, html
    return int(found[1].replace(",", ""))


def next_view(stream: http.client.HTTPResponse) -> str:
    """The next chart that is pushed, with its numbers."""
    while True:
        line = stream.readline()
        assert line, "the events have ended"
        parts = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
        if "now-activity" in parts:
            return str(parts["now-activity"])


def test_two_workers_are_one_view_that_is_kept_up_to_date_until_the_drain(site: Site) -> None:
    site.write(listeners=LISTENERS)
    with site.running() as daemon:
        for number in range(MANY):
            assert send(daemon, f"mail {number}").startswith("250 ")
        reader = Reader(daemon)
        wait_until(lambda: checks(reader.show()) == MANY)
        wait_until(lambda: len(re.findall('data-label="Worker">[12]</td>', reader.show())) == 2)
        streams = [reader.ask("GET", "/ui/events") for _ in range(4)]
        assert all(checks(next_view(stream)) == MANY for stream in streams)

        assert send(daemon, "one more").startswith("250 ")

        for stream in streams:
            while checks(next_view(stream)) == MANY:
                pass
        assert daemon.stop() == 0
        for stream in streams:
            stream.close()


def test_what_was_checked_last_is_counted_and_a_daemon_that_has_ended_is_not_called_silent(
    site: Site, own_redis: RedisServer
) -> None:
    site.write(f"redis: {{url: '{own_redis.url}'}}")
    keys = ModelKeys("default")
    with Redis(unix_socket_path=str(own_redis.socket)) as client:
        with site.running() as daemon:
            wait_until(lambda: client.hlen(keys.activity_processes) == 2)
            for number in range(MANY):
                assert send(daemon, f"mail {number}").startswith("250 ")
            assert daemon.stop() == 0

        assert client.hlen(keys.activity_processes) == 0
        hours: list[dict[bytes, bytes]] = [client.hgetall(key) for key in client.scan_iter("*:activity:hours:*")]
        assert sum(int(n) for hour in hours for name, n in hour.items() if name.endswith(b":unsure")) == MANY


@pytest.mark.soak
def test_messages_that_could_not_be_counted_are_said_after_a_restart_too(
    site: Site, own_redis: RedisServer
) -> None:
    site.write(f"redis: {{url: '{own_redis.url}', timeout_seconds: 0.5}}")
    with site.running() as daemon:
        reader = Reader(daemon)
        own_redis.hang()
        assert [send(daemon, f"mail {number}")[:4] for number in range(2)] == ["250 "] * 2
        wait_until(lambda: "nbstream_activity_dropped_total 2.0" in reader.metrics())
        own_redis.go_on()
        wait_until(lambda: "the last hour lack up to 2 messages" in reader.show())
        assert daemon.stop() == 0

    with site.running() as daemon:
        assert "the last hour lack up to 2 messages" in Reader(daemon).show()
