"""Dashboard and rules over a real daemon that a real Prometheus scrapes, while mail comes and is labelled."""

from __future__ import annotations

import math
import re
import smtplib
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.watching import Prometheus, labels, named, queries, rules, watching
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, wait_until
from tests.harness.samples import samples

COUNT = 40
"""Messages of each wave."""

ALL_ON = """
state_dir: {state}
listeners:
  smtp: {{listen: 127.0.0.1:0}}
  http: {{listen: 127.0.0.1:0}}
  stream: {{}}
  dovecot: {{listen: 'unix:{state}.report'}}
model: {{min_learned: 5}}
verdict: {{max_false_positive_rate: 0.3}}
autolearn: {{ham: 0.3, spam: 0.99}}
models: [{{match: '*@example.org', name: '{{address}}'}}]
correspondents: {{}}
user_page: {{users: ['*@example.org']}}
digest: {{recipients: ['*@example.org'], sender: 'digest@example.org', base_url: 'https://mail.example.org'}}
log: {{format: json}}
workers: {workers}
"""

NO_DATA = {
    "Policy changes": "nothing was reloaded",
    "Kinds": "no kinds are configured",
    "Refused to teach": "nobody was",
    "Spool, mean delay": "no Dovecot handed anything over",
    "Own models, checks": "no user has taught anything",
    "Digests": "nobody used a link",
}
"""Queries that find nothing in this test, and why."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A daemon after mail, and the Prometheus that has seen it."""

    daemon: DaemonProcess
    prometheus: Prometheus

    def exported(self) -> dict[str, set[str]]:
        """The metrics on ``/metrics``, each with the labels of its series, as long as it has any."""
        labels_by_metric: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(self.daemon.get("/metrics")[1]):
            if family.name.endswith("_created"):  # the library's own: when it began to count
                continue
            name = f"{family.name}_total" if family.type == "counter" else family.name
            parts = (
                [f"{name}_{part}" for part in ("bucket", "sum", "count")] if family.type == "histogram" else [name]
            )
            labels_by_metric |= {part: set() for part in parts}
            for sample in family.samples:
                if sample.name in labels_by_metric:
                    labels_by_metric[sample.name] |= set(sample.labels)
        return labels_by_metric


def feed(daemon: DaemonProcess, seed: int, *, is_taught: bool) -> None:
    """Have messages checked by SMTP, and their labels taught by HTTP."""
    host, _, port = daemon.address("smtp").rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS) as client:
        for label, raw in samples(COUNT, seed):
            with suppress(smtplib.SMTPDataError):  # refused as spam
                client.sendmail("someone@example.com", ["ann@example.org"], raw)
            if is_taught:
                url = f"http://{daemon.address('http')}/v1/learn?label={label}"
                with urllib.request.urlopen(url, raw, timeout=DEADLINE_SECONDS) as answer:
                    assert answer.status == 200


@pytest.fixture(scope="module", params=[2], ids="workers-{}".format)
def watched(
    request: pytest.FixtureRequest,
    program: Callable[[str], str],
    redis_binary: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    binary = program("prometheus")
    config = folder / "nb.yaml"
    config.write_text(ALL_ON.format(state=folder / "state", workers=request.param))
    with (
        DaemonProcess(config) as daemon,
        watching(binary, folder / "prometheus", daemon.address("http")) as prometheus,
    ):
        for wave in (1, 2, 3):  # rates are of two scrapes
            feed(daemon, wave, is_taught=wave < 3)
            wait_until(partial(prometheus.saw, {"sum(nbstream_messages_total)": wave * COUNT}))
        settled = {"sum(nbstream_model_messages)": 2 * COUNT, "sum(nbstream_actions_total)": 3 * COUNT}
        wait_until(partial(prometheus.saw, settled))
        yield Watched(daemon, prometheus)


def test_every_query_names_what_the_daemon_exports(watched: Watched) -> None:
    exported = watched.exported() | {"up": set()}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    expressions = [expression for _, expression in queries()] + [rule["expr"] for rule in rules()]

    for expression in expressions:
        assert named(expression), expression
        assert named(expression) <= set(exported) | recorded, expression
        for metric, by in labels(expression):
            known = exported[metric]  # a counter that nothing has counted yet has none
            assert not known or by <= known | {"job", "instance"}, expression


def test_every_query_of_the_dashboard_finds_something(watched: Watched) -> None:
    values = {expression: watched.prometheus.query(expression) for _, expression in queries()}

    empty = {title for title, expression in queries() if not values[expression]}
    # A check before the list of own models is loaded counts as one of an own model that is unavailable.
    assert empty | {"Own models, checks"} == set(NO_DATA)
    undefined = {title for title, expression in queries() if any(map(math.isnan, values[expression]))}
    assert undefined == set()


def test_every_rule_evaluates_and_nothing_is_alarming(watched: Watched) -> None:
    def evaluated() -> list[dict[str, str]]:
        groups = watched.prometheus.ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in evaluated()))

    assert len(evaluated()) == len(rules())
    assert [rule for rule in evaluated() if rule["health"] != "ok" or rule.get("lastError")] == []
    assert [rule["name"] for rule in evaluated() if rule.get("state") == "firing"] == []


def test_whatever_the_daemon_exports_is_in_the_dashboard(watched: Watched) -> None:
    shown = {re.sub("_(bucket|sum|count)$", "", name) for _, expression in queries() for name in named(expression)}
    exported = {re.sub("_(bucket|sum|count)$", "", name) for name in watched.exported()}

    assert exported - shown == set()
