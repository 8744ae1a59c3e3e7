"""Mail goes on while what stands before Redis accepts connections and breaks them, and lessons after it."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, wait_until
from tests.harness.redis.gate import Behaviour, Gate
from tests.harness.redis.redis_server import RedisServer
from tests.integration.workers import send

LISTENERS = "{smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}, stream: {}}"

WELL = (200, '{"ready":true,"degraded":{}}')


def write_settings(folder: Path, gate: Gate) -> Path:
    file = folder / "nb.yaml"
    file.write_text(
        f"state_dir: {folder}/state\nredis: {{url: '{gate.url}', timeout_seconds: 0.5}}\n"
        f"listeners: {LISTENERS}\nlog: {{format: json}}\n"
    )
    return file


def lesson_status(daemon: DaemonProcess, number: int) -> int:
    request = urllib.request.Request(
        f"http://{daemon.address('http')}/v1/learn?label=spam", f"Subject: {number}\n\nOffer\n".encode()
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("behaviour", [Behaviour.RESET, Behaviour.SILENT])
def test_mail_goes_on_and_lessons_are_put_off_until_redis_is_back(
    own_redis: RedisServer, tmp_path: Path, behaviour: Behaviour
) -> None:
    with Gate(own_redis.socket) as gate, DaemonProcess(write_settings(tmp_path, gate)) as daemon:
        wait_until(lambda: lesson_status(daemon, 0) == 200)
        for number, passing in enumerate((0, 3, 6000)):  # bytes of replies
            gate.behaviour, gate.passing = behaviour, passing
            gate.cut()
            connections = gate.connections
            assert send(daemon, f"letter {number}").startswith("250 "), behaviour
            status = lesson_status(daemon, 10 + number)
            assert status in ({200, 503} if passing > 3 else {503}), behaviour
            wait_until(lambda connections=connections: gate.connections > connections + 5)
        gate.behaviour = Behaviour.PASS
        wait_until(lambda: lesson_status(daemon, 1) == 200)
        wait_until(lambda: daemon.get("/readyz") == WELL)
        assert not [
            event
            for event in daemon.events
            if event["level"] == "error" and "the background work" in event["event"]
        ]
        assert daemon.stop() == 0
