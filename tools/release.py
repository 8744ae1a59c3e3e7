"""``make release``: checks that a version can be released, and lists and signs what was built.

``check`` refuses a change log without a section for the version, and changes that are not committed. ``sign``
writes ``SHA256SUMS``, and signs it with the key that git signs with (``user.signingkey`` and ``gpg.format``), if
there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from nbstream import __version__

ROOT = Path(__file__).parent.parent


def check(root: Path = ROOT) -> str | None:
    """Return why this version cannot be released from the clone, if it cannot."""
    heading = re.search(r"^## (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if heading is None or not re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", heading[1]):
        return f"CHANGELOG.md must begin with a section `## {__version__} (YYYY-MM-DD)`"
    if changed := _output("git", "-C", str(root), "status", "--porcelain"):
        return f"these changes are not committed:\n{changed}"
    return None


def sign(folder: Path) -> str:
    """List what the folder has in ``SHA256SUMS``, sign the list if git has a key, and say which was done."""
    files = sorted(file for file in folder.glob("nbstream*") if file.is_file())
    sums = folder / "SHA256SUMS"
    sums.write_text(
        "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files),
        encoding="utf-8",
    )
    for former in (folder / "SHA256SUMS.asc", folder / "SHA256SUMS.sig"):
        former.unlink(missing_ok=True)
    key = _output("git", "config", "--type", "path", "user.signingkey")
    if not key:
        return "not signed: git has no user.signingkey"
    if _output("git", "config", "gpg.format") == "ssh":
        command = ["ssh-keygen", "-Y", "sign", "-n", "file", "-f", key, str(sums)]
    else:
        command = ["gpg", "--armor", "--detach-sign", "--local-user", key, str(sums)]
    subprocess.run(command, check=True)  # noqa: S603 - a fixed command
    return f"signed with {key}"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - git


def main() -> None:
    """Check the clone, or sign what a folder has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("check", "sign"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path("dist"))
    arguments = parser.parse_args()
    if arguments.step == "check":
        sys.exit(check())
    print(sign(arguments.folder))


if __name__ == "__main__":
    main()
