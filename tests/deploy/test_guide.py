"""``deploy/README.md`` names each folder of pieces, and the guides name the pieces."""

from __future__ import annotations

import re

from tests.deploy.postfix import DEPLOY
from tests.handbook.pages import page

GUIDES = "".join(page(f"guides/{path.name}") for path in (DEPLOY.parent / "docs" / "guides").glob("*.md"))
TAKEN_WHOLE = ("deploy/compose", "deploy/debian", "deploy/pipe")
"""Folders that a guide names without the files in them."""


def test_every_folder_is_described() -> None:
    folders = {path.name for path in DEPLOY.iterdir() if path.is_dir()}
    assert folders == set(re.findall(r"^\| `([\w-]+)/` \|", (DEPLOY / "README.md").read_text(), re.MULTILINE))


def test_every_piece_is_installed_by_a_guide() -> None:
    pieces = {path.relative_to(DEPLOY.parent).as_posix() for path in DEPLOY.rglob("*") if path.is_file()}
    named = {piece for piece in pieces if piece in GUIDES}
    of_folders = {piece for piece in pieces if piece.startswith(TAKEN_WHOLE)}
    assert pieces - named - of_folders == {"deploy/README.md"}
    assert all(folder in GUIDES for folder in TAKEN_WHOLE)
