"""Builds the Debian package: ``make deb``, on the release that it is for.

Rules: the package has an environment of its own below ``/usr/lib/nbstream``, with the system's Python and the very
versions of ``.ci/constraints.txt``: no other package and no upgrade of one changes what runs. The package is for
the minor version of that Python alone, and its dependencies say that. Its scripts and its configuration are in
``deploy/debian``. ``/usr/share/doc/nbstream`` has the handbook and all other pieces of ``deploy``, so that the
paths which programs and guides name are there as in a checkout.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from importlib.metadata import Distribution, distributions
from pathlib import Path

from nbstream import __version__
from tools import completion

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
PYTHON = "/usr/bin/python3"
MAINTAINER = "nbstream maintainers <maintainers@users.noreply.a-seed-c06deebf.example>"

_HOME = Path("usr/lib/nbstream")
_PROGRAM = """\
#!/usr/lib/nbstream/bin/python3 -I
import sys

from nbstream.cli.main import main

sys.exit(main())
"""
_SUMMARY = "spam filter daemon: online naive Bayes next to a mail server"
_DESCRIPTION = """\
 It stands between a mail server (Postfix, Exim, anything that speaks SMTP, LMTP
 or milter) and its mailboxes, scores each message with an online naive Bayes
 classifier, and writes the verdict into the header. What users correct counts
 for the very next message, and can be taken back exactly.
 .
 The service listens on this machine alone and has a private Redis, for which it
 needs only the program of redis-server or valkey-server. The service of that
 package is neither used nor changed."""


# What lintian is told, with the reason.
_OVERRIDES = """\
# The libraries are those of the wheels that their makers publish: stripping would break patched ones.
nbstream: unstripped-binary-or-object *
nbstream: shared-library-lacks-prerequisites *
nbstream: library-not-linked-against-libc *
nbstream: embedded-library *
# The program runs in the environment of this package.
nbstream: wrong-path-for-interpreter *
# Its libraries are as their makers publish them, too: these modules of theirs are imported, and not run.
nbstream: executable-not-elf-or-script *
nbstream: unusual-interpreter *
nbstream: package-contains-vcs-control-file *
"""


def build(wheel: Path, folder: Path) -> Path:
    """Build the package of ``wheel`` into ``folder`` and return its file. Raises ``CalledProcessError``."""
    minor = _output(PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    architecture = _output("dpkg", "--print-architecture")
    with tempfile.TemporaryDirectory() as temporary:
        stage = Path(temporary, "package")
        site = _install_environment(stage, wheel, minor)
        _install_files(stage)
        _write_documents(stage, list(distributions(path=[str(site)])))
        _write_control(stage, architecture, minor)
        file = folder / f"nbstream_{__version__}_{architecture}.deb"
        unfinished = file.with_suffix(".unfinished")  # whole, or not there under its name
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", stage, unfinished)
        unfinished.replace(file)
    return file


def _output(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - fixed words


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - fixed words


def _install_environment(stage: Path, wheel: Path, minor: str) -> Path:
    """Make the virtual environment as it will lie in the system, and return its folder of packages."""
    home = stage / _HOME
    site = home / f"lib/python{minor}/site-packages"
    site.mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to(f"../../../bin/python{minor}")
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {minor}\n", encoding="utf-8"
    )
    words = (
        "install",
        "--quiet",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        "--only-binary",
        ":all:",
    )
    with tempfile.TemporaryDirectory() as folder:
        _run(PYTHON, "-m", "venv", folder)
        pip = (Path(folder, "bin/python"), "-m", "pip", *words)
        _run(*pip, "--constraint", ROOT / ".ci/constraints.txt", "--target", site, wheel)
    shutil.rmtree(site / "bin", ignore_errors=True)
    shutil.rmtree(site / "share", ignore_errors=True)
    for tests in [*site.rglob("tests"), *site.rglob("testing")]:  # of numpy and others: half of its size
        if tests.name == "tests":
            shutil.rmtree(tests)
    for library in site.rglob("*.so*"):
        library.chmod(0o644)
    _write(home / "bin/nbstream", _PROGRAM, 0o755)
    return site


def _install_files(stage: Path) -> None:
    program = stage / "usr/bin/nbstream"
    program.parent.mkdir(parents=True)
    program.symlink_to("../lib/nbstream/bin/nbstream")
    _write(stage / "usr/bin/nbstream-filter", (DEPLOY / "pipe/nbstream-filter").read_text(encoding="utf-8"), 0o755)
    _write(stage / "etc/nbstream/nbstream.yaml", (DEPLOY / "debian/nbstream.yaml").read_text(encoding="utf-8"))
    unit = (DEPLOY / "systemd/nbstream.service").read_text(encoding="utf-8")
    unit = unit.replace("/opt/nbstream/bin/nbstream", "/usr/bin/nbstream")
    unit = re.sub(r"\A(?:#.*\n)+\n", "", unit)  # where the other service expects its program
    _write(stage / "usr/lib/systemd/system/nbstream.service", unit)
    tmpfiles = (DEPLOY / "systemd/nbstream.tmpfiles").read_text(encoding="utf-8")
    _write(stage / "usr/lib/tmpfiles.d/nbstream.conf", tmpfiles)
    for shell, target in completion.INSTALLED.items():
        _write(stage / "usr" / target, completion.script(shell))
    for page in (ROOT / "share/man").rglob("nbstream*.[15]"):
        _write_compressed(
            stage / "usr/share/man" / page.parent.name / f"{page.name}.gz", page.read_text(encoding="utf-8")
        )


def _write_documents(stage: Path, installed: Sequence[Distribution]) -> None:
    documents = stage / "usr/share/doc/nbstream"
    shutil.copytree(ROOT / "docs", documents / "docs")
    shutil.copytree(DEPLOY, documents / "examples", ignore=shutil.ignore_patterns("debian", "README.md"))
    for file in documents.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    (documents / "deploy").symlink_to("examples")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    entry = f"nbstream ({__version__}) stable; urgency=medium\n\n  * See changelog.gz.\n\n"
    _write_compressed(documents / "changelog.gz", f"{entry} -- {MAINTAINER}  {formatdate(epoch)}\n")
    _write_compressed(documents / "NEWS.gz", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    _write(stage / "usr/share/lintian/overrides/nbstream", _OVERRIDES)
    _write(documents / "copyright", "\n".join(_copyright(installed)) + "\n")


def _copyright(installed: Sequence[Distribution]) -> Iterator[str]:
    yield f"Copyright: {MAINTAINER}"
    yield "nbstream is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0"
    yield ""
    yield "It comes with these Python packages, each under its own licence, which is in its folder below"
    yield f"/{_HOME}:"
    yield ""
    for distribution in sorted(installed, key=lambda one: one.name.lower()):
        metadata = distribution.metadata
        licence = metadata["License-Expression"] or (metadata["License"] or "").split("\n")[0]
        yield f"  {distribution.name} {distribution.version}: {licence or 'see its folder'}"


def _write_control(stage: Path, architecture: str, minor: str) -> None:
    libraries = b"".join(path.read_bytes() for path in (stage / _HOME).rglob("*.so*"))
    glibc = max(int(number) for number in re.findall(rb"\0GLIBC_2\.(\d+)", libraries))
    major, _, number = minor.partition(".")
    depends = (
        f"python3 (>= {minor}), python3 (<< {major}.{int(number) + 1}), redis-server | valkey-server, adduser, "
        f"init-system-helpers (>= 1.54), libc6 (>= 2.{glibc}), libgcc-s1, libstdc++6"
    )
    size = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file()) // 1024
    fields = {
        "Package": "nbstream",
        "Version": __version__,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size),
        "Depends": depends,
        "Section": "mail",
        "Priority": "optional",
        "Description": f"{_SUMMARY}\n{_DESCRIPTION}",
    }
    _write(stage / "DEBIAN/control", "".join(f"{name}: {value}\n" for name, value in fields.items()))
    _write(stage / "DEBIAN/conffiles", "/etc/nbstream/nbstream.yaml\n")
    for name in ("postinst", "prerm", "postrm"):
        _write(stage / "DEBIAN" / name, (DEPLOY / "debian" / name).read_text(encoding="utf-8"), 0o755)


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)


def _write_compressed(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    file.chmod(0o644)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.debian_package", description=__doc__)
    parser.add_argument("wheel", type=Path, help="the wheel with the native library")
    parser.add_argument("folder", type=Path, help="where the package goes")
    options = parser.parse_args()
    print(build(options.wheel, options.folder))
