"""Somebody poisons a running daemon by mail; it is seen, told, and taken back to the last integer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, command, send, wait_until
from tests.harness.samples import samples

MALLORY = "127.0.0.2"
"""Another peer, on Linux's loopback network."""


@pytest.fixture
def daemon(tmp_path: Path, redis_binary: Path) -> Iterator[DaemonProcess]:  # it starts the server itself
    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {tmp_path / 'state'}\nmodel: {{min_learned: 3}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\nlog: {format: json}\n"
    )
    with DaemonProcess(config) as process:
        yield process


def history(daemon: DaemonProcess, *arguments: str) -> list[dict[str, object]]:
    out = command("history", "-c", daemon.config, "--json", *arguments).stdout
    return [json.loads(line) for line in out.splitlines()]


def opposite(label: str) -> str:
    return "ham" if label == "spam" else "spam"


def test_a_poisoner_is_seen_and_taken_back_while_the_daemon_runs(daemon: DaemonProcess) -> None:
    good = [(f"{label}@nbstream.invalid", raw) for label, raw in samples(300)]
    send(daemon, good)
    probes = [("to@example.org", raw) for _, raw in samples(10, seed=8)]
    before = send(daemon, probes, with_verdict=True)
    known = [daemon.metric(f'nbstream_model_messages{{class="{label}"}}') for label in ("ham", "spam")]
    tokens = daemon.metric("nbstream_model_tokens")

    bad = [(f"{opposite(label)}@nbstream.invalid", raw) for label, raw in samples(40, seed=9)]
    send(daemon, bad, MALLORY)

    assert send(daemon, probes, with_verdict=True) != before
    assert len(history(daemon, "--actor", MALLORY)) == 40
    assert {line["actor"] for line in history(daemon)} == {MALLORY, "127.0.0.1"}

    supposed = command("undo", "-c", daemon.config, "--since", "1h", "--actor", MALLORY)
    assert "changes: 40 would be taken back" in supposed.stdout

    undone = command("undo", "-c", daemon.config, "--since", "1h", "--actor", MALLORY, "--yes")

    assert undone.returncode == 0, undone.stderr
    assert "changes: 40 taken back" in undone.stdout
    wait_until(lambda: daemon.metric("nbstream_model_tokens") == tokens)
    assert [daemon.metric(f'nbstream_model_messages{{class="{label}"}}') for label in ("ham", "spam")] == known
    assert send(daemon, probes, with_verdict=True) == before
