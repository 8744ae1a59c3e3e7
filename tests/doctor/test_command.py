"""The command on whole sites: a healthy one, and one whose daemon has ended."""

from __future__ import annotations

import json
from pathlib import Path

from redis import Redis

from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, free_port

CONFIG = """\
state_dir: {folder}/state
redis: {{url: '{url}'}}
model: {{min_learned: {{spam: 1, ham: 1}}}}
listeners:
  smtp: {{listen: "127.0.0.1:{port}"}}
  http: {{listen: "unix:{folder}/http.sock"}}
log: {{format: json}}
"""


def test_a_healthy_site_is_fine_until_its_daemon_ends(own_redis: RedisServer, tmp_path: Path) -> None:
    with Redis(unix_socket_path=str(own_redis.socket)) as client:
        client.config_set("appendfsync", "always")
        client.config_set("appendonly", "yes")
    file, letter = tmp_path / "nbstream.yaml", tmp_path / "letter.eml"
    file.write_text(CONFIG.format(folder=tmp_path, url=own_redis.url, port=free_port()))
    no_mail_servers = ("--postfix", tmp_path / "none", "--dovecot", tmp_path / "none")
    for label in ("spam", "ham"):
        letter.write_text(f"Subject: {label}\n\nwords of {label}\n")
        assert command("learn", "-c", file, label, letter).returncode == 0

    with DaemonProcess(file):
        healthy = command("doctor", "-c", file, *no_mail_servers)
        quiet = command("doctor", "-c", file, "--quiet", *no_mail_servers)
    ended = command("doctor", "-c", file, "--json", *no_mail_servers)

    assert (healthy.returncode, healthy.stderr) == (0, ""), healthy.stdout
    assert "listeners.smtp" in healthy.stdout
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert ended.returncode == 4
    report = json.loads(ended.stdout)
    assert report["worst"] == "problem"
    assert [finding["check"] for finding in report["findings"] if finding["severity"] == "problem"] == [
        "daemon.running"
    ]
