"""The machine: room on disks, and the spool."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nbstream.doctor import machine
from nbstream.doctor.examination import SiteCheck, run_checks
from nbstream.doctor.machine import disk_finding, examine_spool
from nbstream.findings import Finding
from nbstream.listeners.dovecot.spool import SpooledFeedback, keep_failed
from tests.harness.examined_sites import is_of, make_site, the
from tests.harness.spools import add_all


def file_system(free_bytes: int, files: int = 10**6, free_files: int = 10**6) -> os.statvfs_result:
    """What statvfs(3) says of a file system with so much room."""
    blocks = free_bytes // 4096
    return os.statvfs_result((4096, 4096, blocks * 2, blocks, blocks, files, free_files, free_files, 0, 255))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (file_system(5 << 30), machine.DISK),
        (file_system(5 << 30, files=0, free_files=0), machine.DISK),
        (file_system(500 << 20), machine.DISK_SHORT),
        (file_system(50 << 20), machine.DISK_FULL),
    ],
)
def test_room_on_a_disk(status: os.statvfs_result, kind: Finding) -> None:
    assert is_of(disk_finding(Path("/var/lib/nbstream"), status), kind)


async def test_reported_messages_that_wait_or_were_set_aside(tmp_path: Path) -> None:
    content, listener = b"Subject: x\r\n\r\nprize\r\n", "listeners: {dovecot: {}}\n"
    await add_all(tmp_path / "state", [SpooledFeedback("spam", "user ann", int(time.time()), content)])
    the(examine_spool(make_site(tmp_path)), machine.SPOOL_WITHOUT_LISTENER)
    the(examine_spool(make_site(tmp_path, listener)), machine.SPOOL)

    old = tmp_path / "old"
    old.mkdir()
    await add_all(old / "state", [SpooledFeedback("spam", "user ann", int(time.time()) - 600, content)])
    keep_failed(old / "state", "spam", content, 1 << 20)

    found = list(examine_spool(make_site(old, listener)))

    assert "10 min" in the(found, machine.SPOOL_LATE).what
    assert "(1)" in the(found, machine.SPOOL_FAILED).what


async def test_a_state_file_that_cannot_be_used_is_a_finding_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "state.sqlite").write_text("this is no database\n" * 1000)

    found = await run_checks(make_site(tmp_path), [SiteCheck.blocking("machine", examine_spool)])

    assert any("state.sqlite" in each.what and "move it away" in each.what for each in found)
