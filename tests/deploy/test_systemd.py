"""The systemd unit: accepted by systemd's own checks, and in step with the daemon's deadlines and exit codes."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.cli.exit_codes import EX_CONFIG, EX_USAGE
from nbstream.daemon import config, supervisor
from nbstream.store.embedded import server
from tests.deploy.postfix import DEPLOY

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


def test_the_daemon_has_time_to_drain_and_to_stop_its_redis(service: configparser.SectionProxy) -> None:
    needed = config.load_settings(DEPLOY / "postfix" / "nbstream.yaml").drain_seconds + server.STOP_SECONDS
    assert float(service["TimeoutStopSec"]) > needed


def test_what_trying_again_does_not_mend_is_not_tried_again(service: configparser.SectionProxy) -> None:
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == [str(EX_USAGE), str(EX_CONFIG)]


def test_the_daemon_has_time_to_replace_a_worker_that_hangs(service: configparser.SectionProxy) -> None:
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert float(service["WatchdogSec"]) > supervisor.SILENCE_SECONDS


def test_who_connects_to_a_unix_socket_is_known(service: configparser.SectionProxy) -> None:
    """In a user namespace the kernel would show all clients as nobody, and who may teach depends on who it is."""
    assert service.get("PrivateUsers", "no") == "no"


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
