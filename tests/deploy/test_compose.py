"""``deploy/compose``: its structure, its files by the programs that read them, and all of it without an engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nbstream.daemon import config
from tests.deploy.compose import USER, read_project
from tests.deploy.plain_root import run_alone
from tests.harness.postfix import DEPLOY

COMPOSE = DEPLOY / "compose"
PROJECT = read_project(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = PROJECT["services"]


def test_only_this_machine_reaches_mail_and_the_dashboard() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert sorted(port.rpartition(":")[0] for port in ports) == [
        *("127.0.0.1:143", "127.0.0.1:25", "127.0.0.1:3000", "127.0.0.1:587")
    ]
    published = {name for name, service in SERVICES.items() if "outside" in service["networks"]}
    assert published == {name for name, service in SERVICES.items() if "ports" in service}
    assert [name for name, network in PROJECT["networks"].items() if not (network or {}).get("internal")] == [
        "outside"
    ]


@pytest.fixture
def prepared(tmp_path: Path, program: Callable[[str], str]) -> tuple[Path, str]:
    """A copy of the folder after ``prepare``, and the user's password."""
    program("openssl")
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    compose = tmp_path / "deploy" / "compose"
    done = subprocess.run([compose / "prepare", USER], check=True, timeout=60, capture_output=True, text=True)
    return compose, done.stdout.split()[-1]


def test_prepare_writes_each_secret_once_and_adds_users(prepared: tuple[Path, str]) -> None:
    compose, _ = prepared
    files = {compose / kind["file"] for kind in (*PROJECT["secrets"].values(), *PROJECT["configs"].values())}
    assert [file for file in files if not file.is_file()] == []
    before = {path: path.read_bytes() for path in (compose / "secrets").iterdir() if path.name != "users"}

    subprocess.run([compose / "prepare", "bob@example.org"], check=True, timeout=60, capture_output=True)

    assert before == {path: path.read_bytes() for path in before}
    users = (compose / "secrets" / "users").read_text().splitlines()
    assert [line.partition(":")[0] for line in users] == [USER, "bob@example.org"]
    assert oct((compose / "secrets").stat().st_mode)[-3:] == "700"


def test_nbstream_accepts_its_configuration(prepared: tuple[Path, str], tmp_path: Path) -> None:
    compose, _ = prepared
    file = tmp_path / "nbstream.yaml"
    file.write_text((compose / "nbstream.yaml").read_text().replace("/run/secrets", str(compose / "secrets")))

    settings = config.load_settings(file)

    addresses = {name: SERVICES[name]["networks"]["mail"]["ipv4_address"] for name in ("postfix", "dovecot")}
    assert [str(network) for network in settings.feedback.allow_from] == [
        f"{host}/32" for host in addresses.values()
    ]
    assert settings.listeners.smtp is not None
    assert [str(network) for network in settings.listeners.smtp.trusted_proxies] == [f"{addresses['postfix']}/32"]
    reinjection = f"mynetworks={SERVICES['nbstream']['networks']['mail']['ipv4_address']}/32"
    assert reinjection in (compose / "postfix" / "master.cf").read_text()


def test_nobody_can_open_the_page_so_no_envelope_is_stored() -> None:
    settings = yaml.safe_load((COMPOSE / "nbstream.yaml").read_text())

    assert settings["listeners"]["http"]["listen"].startswith("127.0.0.1:")
    assert settings["memory"] == {"envelope": False}


def test_prometheus_accepts_its_configuration(program: Callable[[str], str], tmp_path: Path) -> None:
    for target in (PROJECT["configs"]["prometheus"], PROJECT["configs"]["prometheus_rules"]):
        shutil.copy(COMPOSE / target["file"], tmp_path)
    done = subprocess.run(
        [program("promtool"), "check", "config", tmp_path / "prometheus.yml"],
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scraped = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"]
    assert [job["static_configs"] for job in scraped] == [[{"targets": ["nbstream:9464"]}]]


def test_grafana_finds_its_prometheus_and_its_dashboard() -> None:
    (source,) = yaml.safe_load((COMPOSE / "grafana/datasources/prometheus.yaml").read_text())["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "http://prometheus:9090", True)
    (provider,) = yaml.safe_load((COMPOSE / "grafana/dashboards/nbstream.yaml").read_text())["providers"]
    targets = {entry["source"]: Path(entry["target"]) for entry in SERVICES["grafana"]["configs"]}
    assert targets["grafana_dashboard"].parent == Path(provider["options"]["path"])
    json.loads((COMPOSE / PROJECT["configs"]["grafana_dashboard"]["file"]).read_text())


def test_mail_goes_through_all_of_it_and_users_teach(
    prepared: tuple[Path, str], program: Callable[[str], str], tmp_path: Path
) -> None:
    """A stranger's mail arrives with a verdict; Junk and a feedback address teach; nothing else gets in."""
    for name in ("postfix", "/usr/lib/dovecot/imap", "/usr/lib/dovecot/lmtp", "redis-server", "sievec", "ip"):
        program(name)
    compose, password = prepared
    (tmp_path / "containers").mkdir()

    run_alone("tests.deploy.compose", compose, tmp_path / "containers", password)
