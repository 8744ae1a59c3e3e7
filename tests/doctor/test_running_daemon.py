"""The daemon: whether it runs and answers, and whether it is the program that is installed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nbstream import __version__
from nbstream.daemon.status import DaemonStatus, WorkerStatus
from nbstream.doctor import running_daemon
from nbstream.doctor.running_daemon import examine_daemon, open_files_finding
from tests.doctor.sites import kind_names, make_site, the
from tests.engine.native import native_library

WORKERS = (WorkerStatus(2, "writer"), WorkerStatus(3, "reader"))
RUNNING = DaemonStatus(os.getpid(), WORKERS, "hash", None, None, __version__)


async def test_a_daemon_that_does_not_run_is_a_problem(tmp_path: Path) -> None:
    the(await examine_daemon(make_site(tmp_path)), running_daemon.NOT_RUNNING)


async def test_a_daemon_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    the(await examine_daemon(make_site(tmp_path, daemon=DaemonStatus(1))), running_daemon.NO_ANSWER)


async def test_a_daemon_that_answers_is_fine(tmp_path: Path) -> None:
    found = await examine_daemon(make_site(tmp_path, daemon=RUNNING))

    assert "2 workers" in the(found, running_daemon.RUNNING).what
    the(found, running_daemon.VERSION)


async def test_a_worker_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    silent = replace(RUNNING, workers=(*WORKERS, WorkerStatus(4, None)))

    found = await examine_daemon(make_site(tmp_path, daemon=silent))

    assert "Worker 4 " in the(found, running_daemon.WORKER_SILENT).what


@pytest.mark.parametrize("version", [None, "0.5.9"])
async def test_a_daemon_of_another_version_waits_for_a_restart(tmp_path: Path, version: str | None) -> None:
    found = await examine_daemon(make_site(tmp_path, daemon=replace(RUNNING, version=version)))

    assert (version or "0.5.0 or older") in the(found, running_daemon.OTHER_VERSION).what


async def test_the_engine_and_why_it_is_that_one_are_said(tmp_path: Path) -> None:
    daemon = replace(RUNNING, engine="native")

    found = await examine_daemon(make_site(tmp_path, "engine: python\n", daemon))

    assert "engine: python" in the(found, running_daemon.SLOW_ENGINE).what
    the(found, running_daemon.OTHER_ENGINE)


async def test_the_native_engine_is_fine(tmp_path: Path) -> None:
    native_library()
    found = await examine_daemon(make_site(tmp_path, "engine: native\n"))

    the(found, running_daemon.ENGINE)


@pytest.mark.parametrize(
    ("limit", "name"),
    [("1024", "running_daemon.FILES"), ("256", "running_daemon.FEW_FILES"), ("unlimited", None)],
)
def test_the_limit_of_open_files_has_to_be_enough_for_all_connections(limit: str, name: str | None) -> None:
    finding = open_files_finding(
        f"Max cpu time  unlimited\nMax open files            {limit}    4096  files\n", 600
    )

    assert kind_names([finding] if finding else []) == ({name} if name else set())
