"""``make dist``: a wheel, built from the source archive, that works by itself where nothing else is installed."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.deploy.postfix import DEPLOY
from tests.waiting import DEADLINE_SECONDS
from tools.completion import INSTALLED

ROOT = DEPLOY.parent
MANUALS = ("share/man/man1/nbstream.1", "share/man/man5/nbstream.yaml.5")
PRIZE = "Subject: You have won\n\nClaim your free prize now, this offer ends today.\n"


def run(*words: str | Path, cwd: Path, code: int = 0) -> str:
    """What a program prints that ends with this code, without what the tests themselves run with."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=clean_environment(cwd),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def clean_environment(home: Path) -> dict[str, str]:
    """The environment without what the tests themselves run with."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return environment | {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "XDG_CONFIG"))
    }


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for a unix socket, whose path may not be long."""
    with tempfile.TemporaryDirectory(prefix="nbstream-") as folder:
        yield Path(folder)


@contextmanager
def serving(nbstream: Sequence[str], settings: Path, cwd: Path) -> Iterator[None]:
    """Run the daemon of these settings; at the end it is stopped by a signal, and ends without an error."""
    log = cwd / "serve.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*nbstream, "serve", "-c", str(settings)],
            cwd=cwd,
            env=clean_environment(cwd),
            stdout=file,
            stderr=file,
        )
    try:
        yield
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0, log.read_text(encoding="utf-8")
    finally:
        process.kill()
        process.wait()


def fetch(path: Path, target: str) -> tuple[int, bytes]:
    """The status and the body of the answer that an HTTP server on a unix socket gives, once it listens."""
    until = time.monotonic() + DEADLINE_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(DEADLINE_SECONDS)
        try:
            connection.connect(str(path))
            break
        except OSError:
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
    with connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: nbstream\r\nConnection: close\r\n\r\n".encode())
        with HTTPResponse(connection) as response:
            response.begin()
            return response.status, response.read()


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what `make dist` builds."""
    folder = tmp_path_factory.mktemp("dist")
    installed = Path(sys.prefix, "test.stamp")  # as it is: the tests run in it
    words = ("make", "-C", ROOT, "-o", installed, "dist", f"VENV={sys.prefix}", f"DIST={folder}")
    run(*words, cwd=folder)
    return folder


def test_the_wheel_has_the_package_and_no_tests(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()

    assert {"nbstream/py.typed", "nbstream/__init__.py"} <= set(names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"nbstream"}
    shared = {name.partition(".data/data/")[2] for name in names} - {""}
    assert shared == {*MANUALS, *INSTALLED.values()}
    (script,) = (name for name in names if ".data/scripts/" in name)
    first_line, _, rest = archive.read(script).partition(b"\n")
    assert first_line == b"#!python -IS"  # the installer puts its own interpreter there, and keeps the options
    assert rest == (DEPLOY / "pipe/nbstream-filter").read_bytes().partition(b"\n")[2]


def test_the_source_archive_has_what_its_tests_need(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        names = {name.partition("/")[2] for name in source.getnames()}

    assert {"Makefile", "tests/conftest.py", "docs/reference/settings.md", "config/nbstream.yaml"} <= names


@pytest.mark.timeout(600)  # pip fetches every dependency, on a machine that does other things too
def test_it_works_where_nothing_else_is_installed(
    dist: Path, tmp_path: Path, short_folder: Path, redis_binary: Path
) -> None:
    (wheel,) = dist.glob("*.whl")
    prefix = tmp_path / "prefix"
    run(sys.executable, "-m", "venv", "--without-pip", prefix, cwd=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", prefix / "bin/python", "install", "--quiet")
    run(*pip, "--constraint", ROOT / ".ci/constraints.txt", wheel, cwd=tmp_path)
    (tmp_path / "prize.eml").write_text(PRIZE)
    settings = tmp_path / "nb.yaml"
    http_socket = short_folder / "http.sock"
    settings.write_text(
        f"state_dir: {tmp_path / 'state'}\nmodel: {{min_learned: {{spam: 1, ham: 0}}}}\n"
        f"listeners: {{smtp: null, http: {{listen: 'unix:{http_socket}'}}}}\n"
    )
    nbstream = (*offline(), str(prefix / "bin/nbstream"))

    assert re.fullmatch(r"nbstream [0-9.]+\n", run(*nbstream, "--version", cwd=tmp_path))
    run(*nbstream, "config", "check", settings, cwd=tmp_path)
    assert "1 learned as spam" in run(*nbstream, "learn", "spam", "-c", settings, "prize.eml", cwd=tmp_path)
    assert "probability" in run(*nbstream, "check", "--json", "-c", settings, "prize.eml", cwd=tmp_path)
    with serving(nbstream, settings, tmp_path):
        status, body = fetch(http_socket, "/v1/openapi.json")
        assert (status, json.loads(body)["info"]["title"]) == (200, "nbstream")
    assert "usage: nbstream-filter" in run(prefix / "bin/nbstream-filter", "--help", cwd=tmp_path)
    for name in (*MANUALS, *INSTALLED.values()):
        assert (prefix / name).stat().st_size > 1000


def offline() -> tuple[str, ...]:
    """What runs a program without a network, where the kernel lets us: nothing that is installed needs one."""
    words = ("unshare", "--map-root-user", "--net")
    try:
        return words if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else ()
    except FileNotFoundError:
        return ()
