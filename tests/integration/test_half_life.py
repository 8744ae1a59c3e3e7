"""A daemon with ``model.half_life_days``: it says what is left, and refuses a model of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.daemon import DaemonProcess, command

CONFIG = "state_dir: {}\nlisteners: {{smtp: {{listen: '127.0.0.1:0'}}, http: {{listen: '127.0.0.1:0'}}}}\n"


@pytest.fixture
def config(tmp_path: Path, redis_binary: Path) -> Path:  # the daemon starts the server itself
    file = tmp_path / "nbstream.yaml"
    file.write_text(CONFIG.format(tmp_path / "state") + "log: {format: json}\nmodel: {half_life_days: 30}\n")
    return file


def test_the_half_lives_that_are_left_are_a_metric_only_where_there_is_one(config: Path) -> None:
    with DaemonProcess(config) as daemon:
        assert 25.9 < daemon.metric("nbstream_model_half_lives_left") <= 26

    config.write_text(config.read_text().replace("half_life_days: 30", "half_life_days: null"))
    with DaemonProcess(config) as daemon:  # nobody taught it: it takes another
        assert "nbstream_model_half_lives_left" not in daemon.get("/metrics")[1]


def test_a_daemon_does_not_start_on_a_model_that_learned_with_another_half_life(
    config: Path, tmp_path: Path
) -> None:
    (tmp_path / "m.eml").write_text("Subject: prize\n\nClaim your free prize now\n")
    assert command("learn", "spam", "-c", config, tmp_path / "m.eml").returncode == 0
    config.write_text(config.read_text().replace("half_life_days: 30", "half_life_days: 60"))

    refused = command("serve", "-c", config)

    assert refused.returncode == 78
    assert "was learned with a half-life of 30 days" in refused.stderr
