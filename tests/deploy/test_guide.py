"""The instructions in ``deploy/README.md`` name what is there."""

from __future__ import annotations

import re

from tests.deploy.postfix import DEPLOY

GUIDE = (DEPLOY / "README.md").read_text()


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"(?<![\w/])(?:deploy|\.ci)/[\w./-]+\w", GUIDE))
    assert named
    assert [name for name in named if not (DEPLOY.parent / name).exists()] == []


def test_every_folder_is_described() -> None:
    folders = {path.name for path in DEPLOY.iterdir() if path.is_dir()}
    assert folders == set(re.findall(r"^\| `(\w+)/` \|", GUIDE, re.MULTILINE))
