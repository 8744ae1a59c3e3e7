"""The systemd unit: accepted by systemd's own checks, and in step with the daemon's deadlines and exit codes."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.postfix import DEPLOY

UNIT = DEPLOY / "systemd" / "nbstream.service"
EXPOSURE_TENTHS = 12  # of 100: what systemd 252 finds
TMPFILES = DEPLOY / "systemd" / "nbstream.tmpfiles"


@pytest.fixture
def service() -> configparser.SectionProxy:
    # Of a setting that is given twice, this keeps the last.
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way to keep upper case
    unit.read(UNIT)
    return unit["Service"]


@pytest.fixture
def analyze(program: Callable[[str], str], tmp_path: Path) -> Callable[..., str]:
    """Run a check of systemd on the unit, with a program that exists here."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/nbstream/bin/nbstream", "/bin/true"))

    def run(*options: str) -> str:
        words = [program("systemd-analyze"), *options, str(copy)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    return run


def test_systemd_finds_nothing_wrong(analyze: Callable[..., str]) -> None:
    assert UNIT.name not in analyze("verify")


def test_systemd_finds_it_well_protected(analyze: Callable[..., str]) -> None:
    analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_TENTHS}")


def test_postfix_in_its_chroot_reaches_a_socket_and_others_do_not(
    service: configparser.SectionProxy, program: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nnbstream:x:4321:4321::/:/bin/sh\n")
    (tmp_path / "etc" / "group").write_text("root:x:0:\nnbstream:x:4321:\npostfix:x:4322:\n")
    shutil.copy(TMPFILES, tmp_path / "nbstream.conf")
    words = [program("systemd-tmpfiles"), "--create", f"--root={tmp_path}", str(tmp_path / "nbstream.conf")]

    subprocess.run(words, check=True, timeout=60)

    folder = Path(service["ReadWritePaths"].removeprefix("-"))
    made = (tmp_path / folder.relative_to("/")).stat()
    assert (oct(made.st_mode)[-4:], made.st_uid, made.st_gid) == ("2710", 4321, 4322)
