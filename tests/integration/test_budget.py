"""A budget of false positives in real daemons: what is guaranteed, told and refused is the same in each."""

from __future__ import annotations

import json
import re
import smtplib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, command, wait_until, write_config
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

LETTERS = list(samples(60))
HAM = [raw for label, raw in LETTERS if label == "ham"]
SPAM = [raw for label, raw in LETTERS if label == "spam"]


@pytest.fixture
def daemons(tmp_path: Path, own_redis: RedisServer) -> Iterator[list[DaemonProcess]]:
    """Two on one Redis; 30 % can be guaranteed from 9 ham on."""
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        config = write_config(
            folder,
            redis=f"{{url: '{own_redis.url}', timeout_seconds: 2}}",
            model="{min_learned: 1}",
            verdict="{max_false_positive_rate: 0.3}",
        )
        found.append(DaemonProcess(config).ready())
    yield found
    for daemon in found:
        daemon.kill()


def send(daemon: DaemonProcess, recipient: str, raw: bytes) -> tuple[int, str]:
    host, _, port = daemon.address("smtp").partition(":")
    with smtplib.SMTP(host, int(port), timeout=30) as client:
        client.ehlo_or_helo_if_needed()
        client.mail("from@example.org")
        client.rcpt(recipient)
        code, text = client.data(raw.replace(b"\n", b"\r\n"))
        return code, text.decode()


def attached(raw: bytes) -> bytes:
    return (
        b"From: you@example.org\nSubject: Fwd\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n" + raw + b"\n--b--\n"
    )


def teach(daemon: DaemonProcess, label: str, raws: list[bytes]) -> None:
    for raw in raws:
        code, text = send(daemon, f"{label}@nbstream.invalid", attached(raw))
        assert code == 250, text


def reason(daemon: DaemonProcess, raw: bytes) -> str:
    (line,) = command("check", "--json", "-c", daemon.config, "-", input=raw.decode()).stdout.splitlines()
    return str(json.loads(line)["reason"])


def test_daemons_guarantee_the_same_and_take_it_back_with_what_is_unlearned(daemons: list[DaemonProcess]) -> None:
    one, two = daemons
    teach(one, "spam", SPAM[:12])
    teach(one, "ham", HAM[:8])

    assert "needs 1 more ham to guarantee 30 %" in reason(one, SPAM[20])
    assert two.metric('nbstream_budget_ham_needed{rate="0.3"}') == 1

    teach(one, "ham", HAM[8:9])
    wait_until(lambda: two.metric('nbstream_budget_guaranteed{rate="0.3"}') == 1)

    assert "guaranteed 30 %" in reason(one, SPAM[20])
    status = json.loads(command("status", "--json", "-c", one.config).stdout)
    assert status["guarantee"] == "guaranteed 30 %"
    exported = re.search(r'nbstream_threshold\{name="spam"\} (\S+)', two.get("/metrics")[1])
    assert exported is not None
    assert float(exported[1]) == status["spam_from"]

    assert command("unlearn", "-c", one.config, "-", input=HAM[8].decode()).returncode == 0
    wait_until(lambda: two.metric('nbstream_budget_ham_needed{rate="0.3"}') == 1)
