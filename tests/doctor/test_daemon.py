"""The daemon and its configuration: whether it runs, what is dangerous in the file, and what is not applied."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nbstream import __version__
from nbstream.cli.main import main
from nbstream.daemon.config import load_settings
from nbstream.daemon.status import DaemonStatus, WorkerStatus, ask_daemon_status
from nbstream.doctor import daemon as doctor
from nbstream.doctor.daemon import examine_configuration, examine_daemon
from nbstream.doctor.examination import Site
from nbstream.engine.choice import ENVIRONMENT
from tests.harness.daemon import DaemonProcess
from tests.harness.examined_sites import kind_names, make_site, the
from tests.harness.redis.redis_server import RedisServer

WORKERS = (WorkerStatus(2, "ready", 0), WorkerStatus(3, "starting", 0))
RUNNING = DaemonStatus(os.getpid(), WORKERS, "hash", None, None, __version__)


async def test_a_daemon_that_does_not_run_is_a_problem(tmp_path: Path) -> None:
    the(await examine_daemon(make_site(tmp_path)), doctor.NOT_RUNNING)


async def test_a_daemon_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    the(await examine_daemon(make_site(tmp_path, daemon=DaemonStatus(1))), doctor.NO_ANSWER)


async def test_a_daemon_that_answers_is_fine(tmp_path: Path) -> None:
    found = await examine_daemon(make_site(tmp_path, daemon=RUNNING))

    assert "2 workers" in the(found, doctor.RUNNING).what
    the(found, doctor.VERSION)


async def test_a_daemon_of_another_version_waits_for_a_restart(tmp_path: Path) -> None:
    found = await examine_daemon(make_site(tmp_path, daemon=replace(RUNNING, version="0.5.9")))

    assert "0.5.9" in the(found, doctor.OTHER_VERSION).what


async def test_the_engine_and_why_it_is_that_one_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "python")
    daemon = replace(RUNNING, engine="native")

    found = await examine_daemon(make_site(tmp_path, daemon=daemon))

    assert "NBSTREAM_ENGINE=python" in the(found, doctor.SLOW_ENGINE).what
    the(found, doctor.OTHER_ENGINE)


DAEMON = """\
state_dir: {folder}/state
listeners: {{smtp: {{listen: "127.0.0.1:0"}}, http: null}}
redis: {{url: "{url}"}}
log: {{format: json}}
"""


def site_of_running_daemon(file: Path) -> Site:
    settings = load_settings(file)
    return Site(settings, ask_daemon_status(settings.state_dir))


async def test_what_is_allowed_and_dangerous_is_a_warning(tmp_path: Path) -> None:
    found = await examine_configuration(make_site(tmp_path, "feedback: {allow_from: ['0.0.0.0/0']}\n"))

    assert "strangers may teach" in the(found, doctor.DANGEROUS).what


def test_a_file_that_cannot_be_used_is_a_finding_for_each_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nbstream.yaml"
    file.write_text("verdict: {spam: none}\nunknown: 1\n")

    assert main(["doctor", "-c", str(file), "--json"]) == 4

    report = json.loads(capsys.readouterr().out)
    assert report["worst"] == "problem"
    assert [finding["check"] for finding in report["findings"]] == ["config.file"] * 2
    assert str(doctor.INVALID.remedy) == report["findings"][0]["remedy"]


async def test_what_the_daemon_has_not_applied_is_said(shared_redis: RedisServer, tmp_path: Path) -> None:
    file = tmp_path / "nbstream.yaml"
    text = DAEMON.format(folder=tmp_path, url=shared_redis.url)
    file.write_text(text)
    with DaemonProcess(file):
        assert "daemon.IN_FORCE" in kind_names(await examine_configuration(site_of_running_daemon(file)))

        file.write_text(f"{text}verdict: {{spam: 0.9}}\nmodel: {{name: other}}\n")
        found = await examine_configuration(site_of_running_daemon(file))
        assert "verdict.spam" in the(found, doctor.NOT_RELOADED).what
        assert "model.name" in the(found, doctor.AWAITS_RESTART).what

        other = tmp_path / "other.yaml"
        shutil.copy(file, other)
        found = await examine_configuration(site_of_running_daemon(other))
        assert str(file) in the(found, doctor.OTHER_FILE).what

        site = site_of_running_daemon(file)
        file.write_text(f"{text}unknown: 1\n")
        found = await examine_configuration(site)
        assert "unknown" in the(found, doctor.REFUSED_BY_DAEMON).what
