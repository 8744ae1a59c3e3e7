"""The pages of the handbook as text, and what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DEPLOY_README = ROOT / "deploy/README.md"
WRITTEN = [
    path for path in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in path.relative_to(ROOT).parts
]
"""The pages that no program makes."""
OUTSIDE = [README, DEPLOY_README, *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "RELEASING", "SECURITY"))]
"""The pages that do not belong to the handbook."""
PAGES = [*OUTSIDE, *WRITTEN]


def page(name: str) -> str:
    """The text of the page docs/``name``."""
    return (ROOT / "docs" / name).read_text()


def name_of(path: Path) -> str:
    """The path of a page from the top of the repository."""
    return path.relative_to(ROOT).as_posix()


def section(text: str, heading: str) -> str:
    """What stands below a heading of a page, up to the next one of any level."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def fenced(text: str, language: str | None = None) -> list[str]:
    """The contents of the fenced blocks, of this language (empty where none is named) or of any."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [content for name, content in blocks if language is None or name == language]


def indented(text: str) -> list[str]:
    """The lines of the blocks that are indented by four spaces, without the indent."""
    return re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)


def run(script: str, folder: Path) -> str:
    """What a shell prints that runs the script in the folder, which is its home; it must succeed."""
    return paste(f"set -euo pipefail\n{script}", folder, home=folder, path=f"{Path(sys.executable).parent}:")


def paste(script: str, folder: Path, *, home: Path, path: str = "") -> str:
    """What a new shell in the folder prints that gets these lines; the last one must succeed.

    ``path`` is what stands before the folders of programs of this user, of which a virtual environment is none.
    """
    own = str(Path(sys.executable).parent)
    programs = ":".join(part for part in os.environ["PATH"].split(":") if part != own)
    environment = {**os.environ, "HOME": str(home), "PATH": path + programs}
    environment.pop("VIRTUAL_ENV", None)
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
