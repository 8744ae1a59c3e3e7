"""The command on whole sites: a healthy one, and one whose daemon has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redis import Redis

from nbstream.cli.main import main
from tests.harness.daemon import DaemonProcess, free_port
from tests.harness.redis.redis_server import RedisServer

CONFIG = """\
state_dir: {folder}/state
redis: {{url: '{url}'}}
model: {{min_learned: 1}}
listeners:
  smtp: {{listen: "127.0.0.1:{port}"}}
  http: {{listen: "unix:{folder}/http.sock"}}
log: {{format: json}}
"""


def make_durable(server: RedisServer) -> None:
    with Redis(unix_socket_path=str(server.socket)) as client:
        client.config_set("appendfsync", "always")
        client.config_set("appendonly", "yes")


def test_a_healthy_site_is_fine_until_its_daemon_ends(
    own_redis: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_durable(own_redis)
    file, letter = tmp_path / "nbstream.yaml", tmp_path / "letter.eml"
    file.write_text(CONFIG.format(folder=tmp_path, url=own_redis.url, port=free_port()))
    examine = ["doctor", "-c", str(file)]
    for label in ("spam", "ham"):
        letter.write_text(f"Subject: {label}\n\nwords of {label}\n")
        assert main(["learn", "-c", str(file), label, str(letter)]) == 0
    capsys.readouterr()

    with DaemonProcess(file):
        code, healthy = main(examine), capsys.readouterr().out
        quiet_code, quiet = main([*examine, "--quiet"]), capsys.readouterr().out
        own_redis.stop()
        away_code, away = main([*examine, "--json"]), capsys.readouterr().out
        own_redis.start()
        make_durable(own_redis)
    ended_code, ended = main([*examine, "--json"]), capsys.readouterr().out

    assert (code, quiet_code, quiet) == (0, 0, ""), healthy
    assert "listeners.smtp" in healthy
    assert (away_code, problems(away)) == (4, ["redis.reachable"])
    assert (ended_code, problems(ended)) == (4, ["daemon.running"])


def problems(report: str) -> list[str]:
    """The checks that found problems."""
    return [finding["check"] for finding in json.loads(report)["findings"] if finding["severity"] == "problem"]
