"""The scrape example and the rules."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import yaml

from tests.harness.postfix import DEPLOY

EXAMPLE = DEPLOY / "prometheus" / "prometheus.yml"
TESTS = DEPLOY / "prometheus" / "nbstream.rules.test.yml"


def test_prometheus_accepts_the_example(program: Callable[[str], str]) -> None:
    words = [program("promtool"), "check", "config", str(EXAMPLE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_every_alert_fires_when_it_should_and_not_before(program: Callable[[str], str]) -> None:
    words = [program("promtool"), "test", "rules", TESTS.name]
    done = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_and_says_what_to_do() -> None:
    groups = yaml.safe_load((TESTS.parent / "nbstream.rules.yml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    cases = {case["name"]: case["promql_expr_test"] for case in yaml.safe_load(TESTS.read_text())["tests"]}

    assert len(alerts) > 15
    for alert in alerts:
        silent, fires = cases[alert["alert"]]
        assert f'alertname="{alert["alert"]}"' in fires["expr"]
        assert silent["expr"] == fires["expr"]
        assert (silent["exp_samples"], len(fires["exp_samples"])) == ([], 1)
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert set(alert["annotations"]) == {"summary", "description"}
