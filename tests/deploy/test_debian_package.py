"""The Debian package on a bare root of Debian 12: installed, used, upgraded, removed and purged.

There is no systemd in such a root: a program in its place notes what it is asked for, and the daemon is run as its
unit runs it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.test_dist import ROOT
from tests.harness.waiting import DEADLINE_SECONDS

pytestmark = [
    pytest.mark.soak,  # it builds the package, and a root with a hundred packages
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a root of its own"),
]

PRIZE = "Subject: You have won\n\nClaim your free prize now, this offer ends today.\n"
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
CONFIG = "/etc/nbstream/nbstream.yaml"
MANAGER_LOG = "root/systemctl.log"


class BareRoot:
    """A root folder with a minimal Debian, in which programs run as in a machine of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str, user: str = "root", code: int = 0, stdin: str = "") -> str:
        """What a program prints that ends with this code."""
        done = self._start(words, user, stdin)
        assert done.returncode == code, done.stdout
        return done.stdout

    def succeeds(self, *words: str, user: str = "root") -> bool:
        """Whether a program ends with 0."""
        return self._start(words, user, "").returncode == 0

    def _start(self, words: tuple[str, ...], user: str, stdin: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(words, user),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            env=_ENVIRONMENT,
            check=False,
        )

    def asked_of_the_service(self) -> list[str]:
        """What the service manager was asked to do with the service since the last call."""
        log = self.folder / MANAGER_LOG
        requests = [line.split() for line in log.read_text().splitlines() if line.endswith(" nbstream.service")]
        log.write_text("")
        return [word for request in requests for word in request if word in {"start", "restart", "stop"}]

    def command(self, words: tuple[str, ...], user: str) -> list[str]:
        """The command that runs a program as ``user`` in this root."""
        return ["chroot", str(self.folder), "runuser", "-u", user, "--", *words]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the daemon as its unit does; at the end it is stopped by a signal, and ends without an error."""
        command = self.command(("nbstream", "serve", "--config", CONFIG), "nbstream")
        log = self.folder / "root/serve.log"
        with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
            until = time.monotonic() + DEADLINE_SECONDS
            try:
                while not (running := re.search(r"running, process (\d+)", self._status())):
                    assert process.poll() is None, log.read_text()  # such as: a port is in use
                    assert time.monotonic() < until
                    time.sleep(0.1)
                yield
                os.kill(int(running[1]), signal.SIGTERM)
                process.wait(DEADLINE_SECONDS)
            finally:
                process.kill()

    def _status(self) -> str:
        return self._start(("nbstream", "status"), "nbstream", "").stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that `make deb` builds."""
    folder = tmp_path_factory.mktemp("deb")
    installed = Path(sys.prefix, "test.stamp")  # as it is: the tests run in it
    words = ["make", "-C", str(ROOT), "-o", str(installed), "deb", f"VENV={sys.prefix}", f"DIST={folder}"]
    subprocess.run(words, check=True, timeout=600)
    (file,) = folder.glob("*.deb")
    return file


@pytest.fixture
def root(tmp_path: Path, program: Callable[[str], str]) -> Iterator[BareRoot]:
    folder = tmp_path / "root"
    words = [program("mmdebstrap"), "--quiet", "--variant=minbase", "bookworm", str(folder)]
    subprocess.run(words, check=True, timeout=600)
    manager = folder / "usr/bin/systemctl"
    manager.write_text(f'#!/bin/sh\necho "$@" >>/{MANAGER_LOG}\ncase "$*" in *is-enabled*) echo enabled ;; esac\n')
    manager.chmod(0o755)
    (folder / "run/systemd/system").mkdir(parents=True)  # it runs
    subprocess.run(["mount", "--bind", "/proc", folder / "proc"], check=True)
    try:
        yield BareRoot(folder)
    finally:
        subprocess.run(["umount", folder / "proc"], check=True)


def named_paths() -> set[str]:
    """The paths of a checkout that programs name, and that the guides for mail servers and monitoring do."""
    folders = ("nbstream", "docs/guides")
    texts = [path.read_text() for name in folders for path in (ROOT / name).rglob("*.[pm][yd]")]
    named = {path for text in texts for path in re.findall(r"(?<![\w/])(?:docs|deploy)/[\w./-]*\w", text)}
    assert {"docs/guides/troubleshooting.md", "deploy/grafana/nbstream.json"} <= named
    return named - {"deploy/debian"}  # what the package is made of


def put(root: BareRoot, package: Path, version: str = "") -> str:
    """Copy the package into the root, as ``version`` where that is given, and return its path there."""
    file = root.folder / f"root/nbstream{version}.deb"
    if not version:
        file.write_bytes(package.read_bytes())
        return f"/root/{file.name}"
    content = root.folder / f"root/content{version}"
    if not content.exists():
        subprocess.run(["dpkg-deb", "--raw-extract", package, content], check=True)
    control = content / "DEBIAN/control"
    lines = [f"Version: {version}" if "Version:" in line else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", content, file], check=True, capture_output=True
    )
    return f"/root/{file.name}"


def test_it_is_installed_used_upgraded_removed_and_purged(root: BareRoot, package: Path) -> None:
    root.run("apt-get", "update", "-q")
    root.run("apt-get", "install", "-q", "-y", "--no-install-recommends", put(root, package))

    assert root.asked_of_the_service() == ["start"]
    with root.serving():
        assert "1 learned as spam" in root.run("nbstream", "learn", "spam", "-", user="nbstream", stdin=PRIZE)
        assert "engine   native" in root.run("nbstream", "status", user="nbstream")
    assert root.succeeds("test", "-s", "/usr/share/man/man1/nbstream.1.gz")
    assert root.succeeds("test", "-s", "/usr/share/bash-completion/completions/nbstream")
    assert "usage: nbstream-filter" in root.run("nbstream-filter", "--help")
    for path in named_paths():
        assert root.succeeds("test", "-e", f"/usr/share/doc/nbstream/{path}"), path

    root.run("apt-get", "install", "-q", "-y", put(root, package, "99.0"))
    assert root.asked_of_the_service() == ["restart"]
    with root.serving():
        assert "spam 1/50" in root.run("nbstream", "status", user="nbstream")

    root.run("apt-get", "install", "-q", "-y", "--allow-downgrades", put(root, package))
    assert root.asked_of_the_service() == ["restart"]
    with root.serving():
        assert "spam 1/50" in root.run("nbstream", "status", user="nbstream")

    with (root.folder / CONFIG.removeprefix("/")).open("a") as file:
        file.write("relais: {}\n")
    said = root.run("apt-get", "install", "-q", "-y", put(root, package, "99.0"))
    assert f"{CONFIG}:14: relais" in said
    assert f"the service was not restarted. Mend {CONFIG}" in said
    assert root.asked_of_the_service() == []

    root.run("install", "-d", "/etc/postfix")
    root.run("tee", "/etc/postfix/main.cf", stdin="# nbstream, perhaps\n")
    root.run(
        "tee",
        "/etc/postfix/master.cf",
        stdin="smtp inet n - y - - smtpd -o content_filter=nbstream:[127.0.0.1]:10025\n",
    )
    said = root.run("apt-get", "remove", "-q", "-y", "nbstream")
    assert (
        "nbstream: a mail server still points here, by these files:\n/etc/postfix/master.cf\nnbstream: until"
        in said
    )
    assert root.asked_of_the_service() == ["stop"]
    assert not root.succeeds("test", "-e", "/usr/lib/nbstream")
    assert root.succeeds("test", "-d", "/var/lib/nbstream/redis")
    assert root.succeeds("test", "-f", CONFIG)

    root.run("apt-get", "purge", "-q", "-y", "nbstream")
    assert not root.succeeds("test", "-e", "/var/lib/nbstream")
    assert not root.succeeds("test", "-e", CONFIG)
    assert not root.succeeds("getent", "passwd", "nbstream")


def test_it_follows_an_installation_by_hand(root: BareRoot, package: Path) -> None:
    root.run("apt-get", "update", "-q")
    root.run("useradd", "--system", "--user-group", "--home-dir", "/var/lib/nbstream", "nbstream")
    root.run("groupadd", "--system", "postfix")  # a Postfix
    root.run("install", "-d", "-o", "nbstream", "-m", "0700", "/var/lib/nbstream", "/etc/nbstream")
    root.run("tee", CONFIG, stdin="state_dir: /var/lib/nbstream\nrelay: {next_hop: maildir, max_connections: 9}\n")
    root.run("touch", "/etc/systemd/system/nbstream.service", "/var/lib/nbstream/kept")

    said = root.run(
        *("apt-get", "install", "-q", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"),
        *("systemd-standalone-tmpfiles", put(root, package)),
    )

    assert f"{CONFIG}:2: relay.max_connections: found an unknown key" in said
    assert f"the service was not restarted. Mend {CONFIG}" in said
    assert "/etc/systemd/system/nbstream.service is of another installation" in said
    assert "next_hop: maildir" in root.run("cat", CONFIG)
    assert root.run("stat", "-c", "%U", "/var/lib/nbstream/kept") == "root\n"
    assert root.run("stat", "-c", "%a %U %G", "/var/spool/postfix/nbstream") == "2710 nbstream postfix\n"


def test_lintian_has_no_error(package: Path, program: Callable[[str], str]) -> None:
    said = subprocess.run(
        [program("lintian"), "--allow-root", package], capture_output=True, text=True, check=False
    )

    assert [line for line in said.stdout.splitlines() if line.startswith("E:")] == []
