"""The scrape example."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import yaml

from nbstream.config import Settings
from tests.deploy.postfix import DEPLOY

EXAMPLE = DEPLOY / "prometheus" / "prometheus.yml"


def test_prometheus_accepts_the_example(program: Callable[[str], str]) -> None:
    words = [program("promtool"), "check", "config", str(EXAMPLE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_it_scrapes_the_door_that_is_open_by_default() -> None:
    (job,) = yaml.safe_load(EXAMPLE.read_text())["scrape_configs"]
    http = Settings().listeners.http
    assert http is not None
    assert job["static_configs"] == [{"targets": [str(http.listen)]}]
    assert job.get("metrics_path", "/metrics") == "/metrics"
