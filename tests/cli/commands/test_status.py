"""``nbstream status``: one ``Status`` is collected, and its text and its JSON say the same."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nbstream.cli.commands.status import collect_status, render_text, status_to_json
from nbstream.cli.exit_codes import EX_TEMPFAIL
from nbstream.cli.main import main
from nbstream.config import load_settings
from nbstream.daemon.status import DaemonStatus, WorkerStatus
from nbstream.listeners.dovecot.spool import FOLDER as SPOOL_FOLDER
from nbstream.listeners.dovecot.spool import SpooledMessage
from tests.cli.taught import Taught
from tests.listeners.dovecot.spools import SpoolWriter

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"


def test_what_is_collected_is_what_is_printed_as_json(taught: Taught) -> None:
    taught.teach(PRIZE, "spam")

    status = asyncio.run(collect_status(load_settings(taught.config)))

    assert status.model.state.learned == {"ham": 0, "spam": 1}
    assert status.daemon == DaemonStatus(None)
    assert taught.json("status") == [json.loads(json.dumps(status_to_json(status)))]


def test_the_text_says_the_same(taught: Taught) -> None:
    taught.teach(PRIZE, "spam")
    (members,) = taught.json("status")

    out, _ = taught("status")

    lines = {line[:9].strip(): line[9:] for line in out.splitlines()}
    assert list(lines) == [
        "model",
        "verdict",
        "tokens",
        "auto",
        "redis",
        "daemon",
        "engine",
        "state",
        "config",
        "policy",
    ]
    assert lines["model"] == f"test: {members['state']} (learned/needed: spam 1/1, ham 0/1)"
    assert lines["tokens"] == str(members["tokens"])
    assert lines["policy"] == members["policy"]
    assert lines["config"] == os.path.realpath(members["config"])


def test_an_engine_that_a_daemon_does_not_run_on_waits_for_a_restart(taught: Taught) -> None:
    status = asyncio.run(collect_status(load_settings(taught.config)))
    other = "native" if status.engine.name == "python" else "python"

    def engine_line(in_force: str | None) -> str:
        daemon = DaemonStatus(1, (), status.policy_hash, in_force)
        (line,) = [line for line in render_text(replace(status, daemon=daemon)) if line.startswith("engine")]
        return line

    assert engine_line(None) == engine_line(status.engine.name) == f"engine   {status.engine}"
    remedy = "restart it, or see whether its NBSTREAM_ENGINE differs"
    assert engine_line(other) == f"engine   {other} in the daemon, {status.engine} here: {remedy}"


def test_the_role_of_each_worker_is_said_where_the_daemon_says_it(taught: Taught) -> None:
    status = asyncio.run(collect_status(load_settings(taught.config)))
    workers = [WorkerStatus(2, "writer"), WorkerStatus(3, "reader"), WorkerStatus(4, None), WorkerStatus(5, "")]

    (line,) = [
        line
        for line in render_text(replace(status, daemon=DaemonStatus(1, tuple(workers))))
        if line.startswith("daemon")
    ]

    roles = "2 (writes the shared counts), 3 (reads the shared counts), 4 (does not answer), 5"
    assert line == f"daemon   running, process 1, workers {roles}"


def test_a_policy_is_stale_only_where_a_daemon_goes_by_another(taught: Taught) -> None:
    status = asyncio.run(collect_status(load_settings(taught.config)))

    def stale(policy_hash: str | None) -> bool:
        return replace(status, daemon=DaemonStatus(1, (), policy_hash)).is_policy_stale

    assert [stale(None), stale(status.policy_hash), stale("0123456789ab")] == [False, False, True]


def test_what_waits_in_the_spool_is_said_while_redis_is_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nb.yaml"
    file.write_text(f"state_dir: {tmp_path}\nredis: {{url: 'unix://{tmp_path}/nobody'}}\n")

    def error() -> str:
        assert main(["status", "-c", str(file)]) == EX_TEMPFAIL
        return capsys.readouterr().err

    assert len(error().splitlines()) == 1
    message = SpooledMessage("spam", "user ann", round(time.time()), PRIZE)
    SpoolWriter(tmp_path / SPOOL_FOLDER).append([message, message])
    redis, spool = error().splitlines()
    assert redis.startswith("nbstream: ")
    assert re.fullmatch(
        r"the spool does not need Redis: messages that wait to be learned: 2 \(the first for \d+ s\); "
        r"that could not be learned: 0",
        spool,
    )


def test_what_kinds_have_learned_is_said(taught: Taught) -> None:
    assert "kinds" not in taught.json("status")[0]
    classes = "classes: [ham, newsletter, spam]"
    taught.config.write_text(taught.config.read_text().replace("name: test,", f"name: test, {classes},"))

    out, _ = taught("status")

    assert "\nkinds    newsletter 0\n" in out
    assert taught.json("status")[0]["kinds"] == {"newsletter": 0}
