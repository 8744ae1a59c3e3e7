"""Checks run at once, have deadlines, and are findings themselves where they fail."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbstream.doctor import daemon, examination
from nbstream.doctor.command import examine
from nbstream.doctor.examination import Site, SiteCheck, in_thread, run_checks
from nbstream.findings import Finding, Severity
from tests.harness.daemon import free_port
from tests.harness.examined_sites import kind_names, make_site, the
from tests.harness.postfix import open_folder

FINE = Finding("fine", Severity.OK, "All is well.")


async def test_checks_run_at_once_and_keep_their_order(tmp_path: Path) -> None:
    second_ran = asyncio.Event()

    async def first(_: Site) -> Sequence[Finding]:
        await second_ran.wait()
        return [Finding("first", Severity.OK, "First.")]

    async def second(_: Site) -> Sequence[Finding]:
        second_ran.set()
        return [FINE]

    found = await run_checks(make_site(tmp_path), [SiteCheck("first", first), SiteCheck("second", second)])

    assert [finding.check for finding in found] == ["first", "fine"]


@pytest.mark.parametrize("error", [OSError("gone"), ZeroDivisionError("fault"), TimeoutError("slow")])
async def test_a_check_that_fails_is_a_finding_and_hides_no_other(tmp_path: Path, error: Exception) -> None:
    async def fail(_: Site) -> Sequence[Finding]:
        raise error

    async def work(_: Site) -> Sequence[Finding]:
        return [FINE]

    found = await run_checks(make_site(tmp_path), [SiteCheck("broken", fail), SiteCheck("other", work)])

    assert str(error) in the(found, examination.FAILED).what
    assert found[1] == FINE


async def test_a_check_that_hangs_in_a_thread_is_a_finding(tmp_path: Path) -> None:
    end = threading.Event()

    async def hang(_: Site) -> Sequence[Finding]:
        await in_thread(end.wait)
        return []

    found = await run_checks(make_site(tmp_path), [SiteCheck("hanging", hang, seconds=0.05)])
    end.set()

    assert the(found, examination.LATE).check == "doctor.hanging"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
async def test_another_user_sees_all_but_what_is_for_the_daemon_alone() -> None:
    with open_folder() as folder:
        state = folder / "state"
        smtp, spamd = f"listen: '127.0.0.1:{free_port()}'", f"listen: 'unix:{state}/s'"
        listeners = f"{{smtp: {{{smtp}}}, spamd: {{{spamd}}}, http: null}}"
        site = make_site(folder, f"listeners: {listeners}\n")
        state.mkdir(mode=0o700)
        (state / "daemon.lock").touch()
        os.seteuid(65534)
        try:
            found = await examine(site.settings)
        finally:
            os.seteuid(0)

    names = kind_names(found)
    assert {"machine.OTHER_USER", "machine.STATE", "machine.DISK", "examination.FORBIDDEN"} <= names
    assert "connections.UNREACHABLE" in names  # they are asked all the same
    problems = [finding.check for finding in found if finding.severity is Severity.PROBLEM]
    assert problems == ["daemon.running", "listener.smtp"]
    assert "run this as that user" in the(found, daemon.STATE_UNUSABLE).what


async def test_a_state_folder_that_cannot_be_used_is_a_finding(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "daemon.lock").mkdir()  # nobody can open it as a file

    found = await examine(site.settings)

    assert "daemon.lock" in the(found, daemon.STATE_UNUSABLE).what
