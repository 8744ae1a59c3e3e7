"""A Prometheus as users run it, over a daemon of the test; and what its queries name."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.harness.daemon import free_port, wait_until
from tests.harness.postfix import DEPLOY

PROMETHEUS = DEPLOY / "prometheus"
RULES = PROMETHEUS / "nbstream.rules.yml"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "nbstream.json").read_text())

_KEYWORDS = {
    "and",
    "or",
    "unless",
    "bool",
    "offset",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
}
_LABELS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")


def queries() -> list[tuple[str, str]]:
    """The panel and the text of each query of the dashboard, with values for its variables."""
    panel_queries = [
        (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
    ]
    annotation_queries = [
        (annotation["name"], annotation["expr"])
        for annotation in DASHBOARD["annotations"]["list"]
        if "expr" in annotation
    ]
    values = {"$__rate_interval": "1m", "$job": "nbstream", "$instance": ".*"}
    return [
        (title, re.sub(r"\$\w+", lambda variable: values[variable[0]], expression))
        for title, expression in panel_queries + annotation_queries
    ]


def rules() -> list[dict[str, Any]]:
    """The recording and alert rules."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def named(expression: str) -> set[str]:
    """The metrics that a query names."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", _LABELS.sub(" ", bare))
    words = re.findall(r"[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])", re.sub(r"\b[0-9.]+(e[0-9]+)?[a-z]*\b", " ", bare))
    return set(words) - _KEYWORDS


def labels(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric that a query selects by labels, and which labels these are."""
    for metric, selector in _SELECTOR.findall(expression):
        yield metric, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"(?:[^"\\]|\\.)*"', '""', selector)))


class Prometheus:
    """A running server that scrapes one target twice a second, and evaluates the rules as often."""

    def __init__(self, binary: str, folder: Path, target: str) -> None:
        self._folder = folder
        example = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        (job,) = example["scrape_configs"]
        job |= {"scrape_interval": "500ms", "static_configs": [{"targets": [target]}]}
        example["global"] = {"evaluation_interval": "500ms"}
        example["rule_files"] = [str(PROMETHEUS / name) for name in example["rule_files"]]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(example))
        self.address = f"127.0.0.1:{free_port()}"
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    binary,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=10):
                return True
        except OSError:  # URLError too
            return False

    def ask(self, path: str, **words: str) -> Any:
        """What the API answers; an error of a query fails the test with its text."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.loads(response.read())["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{words}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[float]:
        """The values that an instant query finds now."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", expression
        return [float(series["value"][1]) for series in data["result"]]

    def saw(self, expected: Mapping[str, float]) -> bool:
        """Whether each query finds this one value by now."""
        return all(self.query(expression) == [value] for expression, value in expected.items())

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def watching(binary: str, folder: Path, target: str) -> Iterator[Prometheus]:
    """A server over ``target`` that has begun."""
    folder.mkdir()
    server = Prometheus(binary, folder, target)
    try:
        wait_until(server.ready)
        yield server
    finally:
        server.stop()
