"""Owners and modes: real files, each with something that is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbstream.daemon.status import DaemonStatus
from nbstream.doctor import machine
from nbstream.doctor.machine import examine_secrets, examine_state_folder, examine_user
from tests.harness.examined_sites import make_site, the

STRANGER = 65534
RUNNING = DaemonStatus(os.getpid())
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def test_a_state_folder_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)

    assert "0755" in the(examine_state_folder(make_site(tmp_path)), machine.STATE_OPEN).what


@needs_root
def test_a_state_folder_of_another_user_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", STRANGER, STRANGER)

    found = examine_state_folder(make_site(tmp_path, daemon=RUNNING))

    assert "nobody" in the(found, machine.STATE_OF_OTHER).what


@needs_root
def test_an_examination_by_another_user_than_the_daemons_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", STRANGER, STRANGER)

    found = examine_user(make_site(tmp_path))

    assert "runuser -u nobody" in the(found, machine.OTHER_USER).remedy


@pytest.mark.parametrize(
    ("mode", "owner", "kind"),
    [
        (0o600, 0, machine.SECRETS),
        (0o640, 0, machine.SECRETS),
        (0o640, STRANGER, machine.SECRET_OF_GROUP),
        (0o644, 0, machine.SECRET_OPEN),
    ],
)
@needs_root
def test_passwords_are_for_the_daemon_alone(tmp_path: Path, mode: int, owner: int, kind: object) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(mode)
    os.chown(password, owner, owner)

    found = examine_secrets(make_site(tmp_path, f"listeners: {{http: {{password_file: {password}}}}}\n"))

    the(found, kind)  # type: ignore[arg-type]  # a Finding


def test_a_configuration_with_a_password_in_it_is_a_file_with_a_password(tmp_path: Path) -> None:
    site = make_site(tmp_path, "redis: {url: 'redis://:secret@127.0.0.1:1'}\n")
    assert site.settings.source
    site.settings.source.chmod(0o644)

    assert "redis.url" in the(examine_secrets(site), machine.SECRET_OPEN).what
