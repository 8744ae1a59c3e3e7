"""``deploy/README.md`` names each folder of pieces, and the guides name the pieces."""

from __future__ import annotations

import re

from tests.deploy.postfix import DEPLOY
from tests.handbook.pages import page

_GUIDES = ("postfix", "milter", "next-hop", "pipe", "dovecot", "operations", "high-availability")
GUIDES = "".join(page(f"guides/{name}.md") for name in _GUIDES)


def test_every_folder_is_described() -> None:
    folders = {path.name for path in DEPLOY.iterdir() if path.is_dir()}
    assert folders == set(re.findall(r"^\| `(\w+)/` \|", (DEPLOY / "README.md").read_text(), re.MULTILINE))


def test_every_piece_is_installed_by_a_guide() -> None:
    pieces = {path.relative_to(DEPLOY.parent).as_posix() for path in DEPLOY.rglob("*") if path.is_file()}
    assert {piece for piece in pieces if piece not in GUIDES} == {"deploy/README.md"}
