"""What ``make release`` checks, lists and signs, with real keys."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream import __version__
from tools import release


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an archive, and a git that has the settings of the test alone."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "nbstream-1.tar.gz").write_bytes(b"archive")
    return folder


def configure(**settings: str) -> None:
    for name, value in settings.items():
        subprocess.run(["git", "config", "--global", name.replace("_", "."), value], check=True)


def test_a_clone_is_released_with_its_section_of_the_change_log_and_nothing_uncommitted(
    built: Path, tmp_path: Path
) -> None:
    configure(user_name="x", user_email="x@example.org")
    log = tmp_path / "CHANGELOG.md"
    log.write_text("# Change log\n\n## 0.0.1 (2026-01-31)\n")
    assert __version__ in (release.check(tmp_path) or "")

    log.write_text(f"# Change log\n\n## {__version__} (2026-01-31)\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert "CHANGELOG.md" in (release.check(tmp_path) or "")

    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", "x"], cwd=tmp_path, check=True)
    assert release.check(tmp_path) is None


def test_without_a_key_the_checksums_are_not_signed(built: Path) -> None:
    assert release.sign(built) == "not signed: git has no user.signingkey"

    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=built, check=True)
    assert {file.name for file in built.iterdir()} == {"nbstream-1.tar.gz", "SHA256SUMS"}


def test_with_a_key_of_ssh_anybody_can_verify_the_checksums(
    built: Path, tmp_path: Path, program: Callable[[str], str]
) -> None:
    keygen, key = program("ssh-keygen"), tmp_path / "key"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"release {key.with_suffix('.pub').read_text()}")
    configure(user_signingkey=str(key), gpg_format="ssh")

    release.sign(built)
    release.sign(built)  # again, over what is there

    sums = built / "SHA256SUMS"
    verify = [keygen, "-Y", "verify", "-f", str(allowed), "-I", "release", "-n", "file", "-s", f"{sums}.sig"]
    subprocess.run(verify, input=sums.read_bytes(), check=True)


def test_with_a_key_of_gpg_anybody_can_verify_the_checksums(
    built: Path, tmp_path: Path, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpg, home = program("gpg"), tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    subprocess.run([gpg, "--batch", "--passphrase", "", "--quick-generate-key", "x@example.org"], check=True)
    configure(user_signingkey="x@example.org")

    release.sign(built)

    subprocess.run([gpg, "--verify", built / "SHA256SUMS.asc", built / "SHA256SUMS"], check=True)
