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
PAGES = [README, DEPLOY_README, *WRITTEN]


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
    environment = {
        **os.environ,
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
