"""Own models in a real daemon: every way in that names a recipient or a user, and what each of them gets."""

from __future__ import annotations

import io
import json
import re
import smtplib
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from nbstream.cli.exit_codes import EX_TEMPFAIL
from nbstream.cli.main import main
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.redis.redis_server import RedisServer

ANN, BOB, EVE = "ann@example.org", "bob@example.org", "eve@other.example"


def news(number: int) -> bytes:
    return (
        f"From: news@shop.example\r\nTo: list@shop.example\r\nMessage-ID: <{number}@shop.example>\r\n"
        f"Subject: offers of week {number}\r\n\r\nAll the bargains of our shop, number {number}\r\n"
    ).encode()


def letter(number: int) -> bytes:
    return (
        f"From: carol@home.example\r\nMessage-ID: <{number}@home.example>\r\nSubject: dinner\r\n\r\n"
        f"Shall we meet on day {number}?\r\n"
    ).encode()


@dataclass(frozen=True)
class Site:
    """A daemon with own models for example.org alone."""

    daemon: DaemonProcess
    redis: Redis
    folder: Path

    def deliver(self, raw: bytes, *recipients: str) -> dict[str, Any]:
        """Send mail by SMTP, and return the verdict headers of the copies that arrived."""
        host, _, port = self.daemon.address("smtp").partition(":")
        new = self.folder / "state" / "Maildir" / "new"
        before = set(new.glob("*"))
        with smtplib.SMTP(host, int(port), timeout=30) as client:
            client.sendmail("sender@shop.example", list(recipients), raw)
        copies = set(new.glob("*")) - before
        fields = [re.search(rb"^X-Nbstream: (.*(?:\r?\n[ \t].*)*)", copy.read_bytes(), re.M) for copy in copies]
        return {"copies": len(copies), "fields": sorted(field[1].decode() for field in fields if field)}

    def check(self, raw: bytes, *recipients: str) -> dict[str, Any]:
        query = "&".join(f"recipient={recipient}" for recipient in recipients)
        self.post(f"/v1/check?{query}", raw)  # it begins to load the models, which may take longer than mail waits
        return self.post(f"/v1/check?{query}", raw)

    def learn(self, raw: bytes, label: str, user: str) -> dict[str, Any]:
        return self.post(f"/v1/learn?label={label}", raw, {"User": user} if user else {})

    def post(self, path: str, raw: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{self.daemon.address('http')}{path}",
            raw,
            {"Content-Type": "message/rfc822", **(headers or {})},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return answer

    def rspamd_check(self, raw: bytes, recipient: str) -> dict[str, Any]:
        return self.post("/checkv2", raw, {"Rcpt": recipient})

    def spamd(self, command: str, raw: bytes, **fields: str) -> str:
        host, _, port = self.daemon.address("spamd").partition(":")
        lines = [f"{command} SPAMC/1.5", f"Content-length: {len(raw)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall("\r\n".join([*lines, "", ""]).encode() + raw)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b"")).decode()


@pytest.fixture
def site(own_redis: RedisServer, tmp_path: Path) -> Iterator[Site]:
    config = tmp_path / "nbstream.yaml"
    config.write_text(
        json.dumps(
            {
                "state_dir": str(tmp_path / "state"),
                "redis": {"url": own_redis.url},
                "listeners": {
                    "smtp": {"listen": "127.0.0.1:0"},
                    "http": {"listen": "127.0.0.1:0"},
                    "spamd": {"listen": "127.0.0.1:0"},
                    "stream": {},
                },
                "relay": {"next_hop": "maildir"},
                "model": {"min_learned": 1},
                "models": [{"match": "*@example.org", "name": "{domain}/{local}"}],
                "log": {"format": "json"},
            }
        )
    )
    with DaemonProcess(config) as daemon, Redis.from_url(own_redis.url) as redis:
        site = Site(daemon, redis, tmp_path)
        for number in range(8):
            site.learn(news(number), "spam", "")
            site.learn(letter(number), "ham", "")
        yield site


def own_models(site: Site) -> list[str]:
    names = cast("list[bytes]", site.redis.zrange("nbstream:{default}:own", 0, -1))
    return sorted(name.decode() for name in names)


def test_each_recipient_of_one_message_gets_his_own_verdict(site: Site) -> None:
    common = site.check(news(99))["probability"]
    for number in range(20, 24):
        site.learn(news(number), "ham", ANN)

    delivered = site.deliver(news(99), ANN, BOB)

    probabilities = sorted(float(re.findall(r"probability=([\d.]+)", field)[0]) for field in delivered["fields"])
    assert delivered["copies"] == 2
    assert probabilities[0] < probabilities[1] == pytest.approx(common, abs=1e-6)
    assert sum("own=used" in field for field in delivered["fields"]) == 1
    assert not any("ann" in field or "bob" in field for field in delivered["fields"])


def test_every_protocol_that_names_a_user_asks_his_model(site: Site) -> None:
    before = site.check(news(99), ANN)["probability"]
    for number in range(20, 24):
        site.learn(news(number), "ham", ANN)
    after = site.check(news(99), ANN)["probability"]

    spamd = site.spamd("CHECK", news(99), User=ANN)
    reply = site.rspamd_check(news(99), ANN)
    site.redis.xadd("nbstream:{default}:in", {"raw": news(99), "to": ANN, "id": "1"})
    wait_until(lambda: site.redis.xlen("nbstream:{default}:out") > 0)
    answers = cast("list[tuple[bytes, dict[bytes, bytes]]]", site.redis.xrange("nbstream:{default}:out"))
    _, streamed = answers[0]

    assert after < before
    assert own_models(site) == ["example.org/ann"]
    assert float(streamed[b"probability"]) == pytest.approx(after, abs=1e-6)
    for other in (BOB, EVE):
        assert site.check(news(99), other)["probability"] == pytest.approx(before)
    assert site.rspamd_check(news(99), BOB)["score"] > reply["score"]
    assert spamd.split("Spam:")[1] != site.spamd("CHECK", news(99), User=BOB).split("Spam:")[1]


def test_a_user_is_erased_while_mail_comes(site: Site) -> None:
    def is_erased() -> bool:
        """Erase; False where the command itself says that something came in meanwhile."""
        with redirect_stdout(io.StringIO()):
            code = main(["forget", "-c", str(site.daemon.config), "--user", ANN, "--yes"])
        assert code in {0, EX_TEMPFAIL}
        return code == 0

    def everything() -> bytes:
        """All that Redis has, but for the change streams."""
        keys = [key for key in cast("list[bytes]", site.redis.keys("*")) if not key.endswith(b":changes")]
        readers: dict[bytes, Any] = {
            b"string": site.redis.get,
            b"hash": site.redis.hgetall,
            b"set": site.redis.smembers,
            b"zset": lambda key: site.redis.zrange(key, 0, -1),
            b"stream": site.redis.xrange,
        }
        return b"".join(key + repr(readers[cast("bytes", site.redis.type(key))](key)).encode() for key in keys)

    def totals() -> dict[bytes, bytes]:
        return cast("dict[bytes, bytes]", site.redis.hgetall("nbstream:{default}:totals"))

    common, at_first = site.check(news(99))["probability"], totals()
    for number in range(20, 24):
        for user in (ANN, BOB):
            site.learn(news(number), "ham", user)
    site.deliver(news(98), ANN)
    bobs = site.check(news(99), BOB)["probability"]
    assert site.check(news(99), ANN)["probability"] == bobs < common

    wait_until(is_erased)

    assert own_models(site) == ["example.org/bob"]
    wait_until(lambda: site.check(news(99), ANN)["probability"] == pytest.approx(common))
    assert site.check(news(99), BOB)["probability"] == bobs
    assert totals() == at_first

    def is_nowhere() -> bool:  # what the checks since then have remembered is written a little later
        return is_erased() and b"example.org/ann" not in everything() and ANN.encode() not in everything()

    wait_until(is_nowhere)
    assert b"example.org/bob" in everything()

    def teaches_again() -> bool:  # the daemon may be about to read that the model is gone, and says so: try again
        with suppress(urllib.error.HTTPError):
            site.learn(news(30), "ham", ANN)
            return own_models(site) == ["example.org/ann", "example.org/bob"]
        return False

    wait_until(teaches_again)
