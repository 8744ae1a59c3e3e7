"""The build of the native library and of the wheels, with a program in place of cargo."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import build_native

ROOT = Path(__file__).parents[2]
CARGO = f"""#!{sys.executable}
import pathlib, sys
words = sys.argv[1:]
assert {{"--offline", "--locked"}} <= set(words)
assert pathlib.Path(words[words.index("--manifest-path") + 1]).exists()
folder = pathlib.Path(words[words.index("--target-dir") + 1], words[words.index("--profile") + 1])
folder.mkdir(parents=True)
(folder / "libnbstream_native.so").write_bytes(b"compiled")
"""


def program(folder: Path, text: str) -> str:
    file = folder / "cargo"
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARGO", program(tmp_path, CARGO))
    monkeypatch.delenv(build_native.ENVIRONMENT, raising=False)


@pytest.fixture(params=["missing", "broken"])
def no_cargo(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = program(tmp_path, "#!/bin/sh\nexit 101\n")
    monkeypatch.setenv("CARGO", broken if request.param == "broken" else str(tmp_path / "nothing"))
    monkeypatch.delenv(build_native.ENVIRONMENT, raising=False)


@pytest.mark.usefixtures("cargo")
def test_what_cargo_makes_is_the_library(tmp_path: Path) -> None:
    library = tmp_path / "libnbstream_native.so"
    is_built, line = build_native.try_build(library, target=tmp_path / "target")
    assert (is_built, library.read_bytes()) == (True, b"compiled")
    assert line.startswith("native library: 0 kB, built in ")


@pytest.mark.usefixtures("no_cargo")
def test_without_cargo_a_line_says_so_and_no_older_library_is_left(tmp_path: Path) -> None:
    library = tmp_path / "libnbstream_native.so"
    library.write_bytes(b"of older sources")
    is_built, line = build_native.try_build(library, target=tmp_path / "target")
    assert (is_built, library.exists()) == (False, False)
    assert line.startswith("native library: not built (")
    assert line.endswith("the Python engine is used")


@pytest.mark.usefixtures("no_cargo")
def test_a_library_that_was_asked_for_and_cannot_be_built_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(build_native.ENVIRONMENT, "native")
    with pytest.raises(build_native.CannotBuild):
        build_native.try_build(tmp_path / "libnbstream_native.so", target=tmp_path / "target")


def test_an_environment_that_asks_for_neither_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(build_native.ENVIRONMENT, "steam")
    with pytest.raises(build_native.CannotBuild, match="must be auto, python or native"):
        build_native.try_build(tmp_path / "libnbstream_native.so")


def wheel(tmp_path: Path) -> zipfile.ZipFile:
    """The wheel of a copy of the sources, so that what a build leaves there is seen."""
    source, dist = tmp_path / "source", tmp_path / "dist"
    for name in ("nbstream", "native", "tools", "share"):
        ignored = shutil.ignore_patterns("*.so", "target", "__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    before = {path for path in source.rglob("*") if "__pycache__" not in path.parts}
    words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(source)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert {path for path in source.rglob("*") if "__pycache__" not in path.parts} == before
    (file,) = dist.iterdir()
    return zipfile.ZipFile(file)


@pytest.mark.usefixtures("cargo")
def test_a_wheel_with_the_library_is_for_any_python_on_this_platform(tmp_path: Path) -> None:
    with wheel(tmp_path) as archive:
        assert archive.read(build_native.LIBRARY) == b"compiled"
        (tmp_path / "library").write_bytes(b"compiled")
        assert str(archive.filename).endswith(f"-{build_native.wheel_tag(tmp_path / 'library')}.whl")


@pytest.mark.parametrize(
    ("content", "platform"),
    [
        (b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.14\0", "manylinux_2_34_x86_64"),
        (b"\0GLIBC_2.17\0", "manylinux_2_17_x86_64"),
        (b"compiled", "linux_x86_64"),
    ],
)
def test_a_wheel_is_for_each_system_whose_c_library_is_new_enough(
    content: bytes, platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_platform", lambda: "linux-x86_64")
    (tmp_path / "library.so").write_bytes(content)

    assert build_native.wheel_tag(tmp_path / "library.so") == f"py3-none-{platform}"


@pytest.mark.usefixtures("no_cargo")
def test_a_wheel_without_the_library_is_for_every_platform(tmp_path: Path) -> None:
    with wheel(tmp_path) as archive:
        assert str(archive.filename).endswith("-py3-none-any.whl")
        assert [name for name in archive.namelist() if name.endswith(".so")] == []


def test_the_crate_has_no_dependencies() -> None:
    lock = (ROOT / "native/Cargo.lock").read_text()
    assert lock.count("[[package]]") == 1
