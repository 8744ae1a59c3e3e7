"""Builds the native library with cargo, without any network.

Rules: the package works without the library, so a build that is impossible is said in one line and is no error,
unless the native engine was asked for (``NBSTREAM_BUILD_ENGINE=native``). A library of older sources is removed
where it cannot be built anew: nobody gets what the sources no longer say.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

ROOT = Path(__file__).parent.parent
LIBRARY = "nbstream/engine/libnbstream_native.so"
"""Where the library is, in the source folder and in a wheel."""

Choice: TypeAlias = Literal["auto", "python", "native"]
ENVIRONMENT = "NBSTREAM_BUILD_ENGINE"
"""``python`` leaves the library out of a wheel, ``native`` makes it an error that it cannot be built."""


class CannotBuild(Exception):
    """The library cannot be built here; the text says why."""


def build(library: Path, *, root: Path = ROOT, profile: str = "release", target: Path | None = None) -> str:
    """Build the library from the sources in ``root`` into the file ``library``, and return a line about it.

    ``CARGO`` names another cargo, as ``RUSTC`` names another compiler. ``target`` is the folder of what cargo
    keeps. Raises ``CannotBuild``; ``library`` does not exist then.
    """
    started = time.monotonic()
    # A process that has loaded the old file keeps it, because the new one is another file.
    temporary = library.with_suffix(".new")
    try:
        shutil.copyfile(_run_cargo(root / "native", target or root / "native" / "target", profile), temporary)
        temporary.replace(library)
    except (CannotBuild, OSError) as error:
        library.unlink(missing_ok=True)
        raise CannotBuild(str(error)) from error
    size = library.stat().st_size / 1000
    return f"native library: {size:.0f} kB, built in {time.monotonic() - started:.1f} s"


def _run_cargo(crate: Path, target: Path, profile: str) -> Path:
    """Return the library that cargo has made."""
    cargo = shutil.which(os.environ.get("CARGO", "cargo"))
    if cargo is None:
        raise CannotBuild("there is no cargo")
    words = ["build", "--lib", "--offline", "--locked", "--quiet", "--profile", profile]
    paths = ["--manifest-path", str(crate / "Cargo.toml"), "--target-dir", str(target)]
    # On a busy machine this takes half a minute, in which cargo is silent.
    print(f"native library: {cargo} builds it ...", flush=True)
    result = subprocess.run(  # noqa: S603 - a fixed command
        [cargo, *words, *paths], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
    )
    if result.returncode:
        raise CannotBuild(f"{cargo} failed with exit code {result.returncode}")
    return target / profile / Path(LIBRARY).name


def try_build(library: Path, **options: Any) -> tuple[bool, str]:
    """Return whether ``build`` has built the library, and a line about it.

    Raises ``CannotBuild`` where the native engine was asked for.
    """
    choice = _choice()
    if choice == "python":
        return False, f"native library: left out ({ENVIRONMENT}=python)"
    try:
        return True, build(library, **options)
    except CannotBuild as error:
        if choice == "native":
            raise
        return False, f"native library: not built ({error}), the Python engine is used"


def _choice() -> Choice:
    value = os.environ.get(ENVIRONMENT, "auto")
    for choice in get_args(Choice):
        if value == choice:
            return cast("Choice", choice)
    raise CannotBuild(f"{ENVIRONMENT}={value}: must be auto, python or native")


def wheel_tag(library: Path) -> str:
    """Return the tag of a wheel with the library: any Python 3, and each system whose C library is new enough.

    That is ``manylinux_2_N`` (PEP 600), where the library needs no symbol of a later glibc than 2.N; a library
    that names no version of glibc is for this platform alone.
    """
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    versions = [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)", library.read_bytes())]
    if versions and platform.startswith("linux_"):
        platform = f"manylinux_2_{max(versions)}_{platform.removeprefix('linux_')}"
    return f"py3-none-{platform}"


def main() -> int:
    """Build the library beside the module that loads it; 1 where it was asked for and cannot be built.

    Ctrl-C ends with 130.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.build_native", description=__doc__)
    parser.add_argument("--profile", default="release", help="release or checked (see native/Cargo.toml)")
    options = parser.parse_args()
    try:
        _, line = try_build(ROOT / LIBRARY, profile=options.profile)
    except CannotBuild as error:
        print(f"native library: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
