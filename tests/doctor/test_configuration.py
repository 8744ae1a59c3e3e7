"""The configuration: what is dangerous in it, and what the daemon has not applied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nbstream.cli.main import main
from nbstream.config import load_settings
from nbstream.daemon.status import ask_daemon_status
from nbstream.doctor import configuration
from nbstream.doctor.configuration import examine_configuration
from nbstream.doctor.site import Site
from tests.conftest import RedisServer
from tests.doctor.sites import kind_names, make_site, the
from tests.integration.daemon import DaemonProcess

DAEMON = """\
state_dir: {folder}/state
listeners: {{smtp: {{listen: "127.0.0.1:0"}}, http: null}}
redis: {{url: "{url}"}}
log: {{format: json}}
"""


def site_of_running_daemon(file: Path) -> Site:
    settings = load_settings(file)
    return Site(settings, ask_daemon_status(settings.state_dir))


async def test_settings_that_can_be_used_are_fine(tmp_path: Path) -> None:
    found = await examine_configuration(make_site(tmp_path))

    assert kind_names(found) == {"configuration.VALID"}


async def test_what_is_allowed_and_dangerous_is_a_warning(tmp_path: Path) -> None:
    found = await examine_configuration(
        make_site(tmp_path, "redis: {url: 'rediss://redis.example:6379?ssl_cert_reqs=none'}\n")
    )

    assert "certificate" in the(found, configuration.DANGEROUS).what


def test_a_file_that_cannot_be_used_is_a_finding_for_each_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nbstream.yaml"
    file.write_text("verdict: {spam: none}\nunknown: 1\n")

    assert main(["doctor", "-c", str(file), "--json"]) == 4

    report = json.loads(capsys.readouterr().out)
    assert report["worst"] == "problem"
    assert [finding["check"] for finding in report["findings"]] == ["config.file"] * 2
    assert str(configuration.INVALID.remedy) == report["findings"][0]["remedy"]


async def test_what_the_daemon_has_not_applied_is_said(shared_redis: RedisServer, tmp_path: Path) -> None:
    file = tmp_path / "nbstream.yaml"
    text = DAEMON.format(folder=tmp_path, url=shared_redis.url)
    file.write_text(text)
    with DaemonProcess(file):
        assert "configuration.IN_FORCE" in kind_names(await examine_configuration(site_of_running_daemon(file)))

        file.write_text(f"{text}verdict: {{spam: 0.9}}\nmodel: {{name: other}}\n")
        found = await examine_configuration(site_of_running_daemon(file))
        assert "verdict.spam" in the(found, configuration.NOT_RELOADED).what
        assert "model.name" in the(found, configuration.AWAITS_RESTART).what

        other = tmp_path / "other.yaml"
        shutil.copy(file, other)
        found = await examine_configuration(site_of_running_daemon(other))
        assert str(file) in the(found, configuration.OTHER_FILE).what

        site = site_of_running_daemon(file)
        file.write_text(f"{text}unknown: 1\n")
        found = await examine_configuration(site)
        assert "unknown" in the(found, configuration.REFUSED_BY_DAEMON).what
