"""The handbook is built, strictly, and the built pages take nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.harness.handbook_pages import ROOT
from tests.harness.programs import missing


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """mkdocs with the configuration in ``source``."""
    if not (find_spec("mkdocs") and find_spec("material")):
        missing("mkdocs-material, of the extra docs,")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--config-file",
            str(source / "mkdocs.yml"),
            "--site-dir",
            str(site),
        ],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_handbook_is_built_and_takes_nothing_from_elsewhere(tmp_path: Path) -> None:
    result = build(ROOT, tmp_path / "site")

    assert result.returncode == 0, result.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    elsewhere = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>]*")
    assert {match for page in pages for match in elsewhere.findall(page.read_text())} == set()
    assert [
        page.name for page in pages if 'class="mermaid"' in page.read_text()
    ] == []  # drawn by a script of a CDN
