"""What the static files may contain."""

from __future__ import annotations

import re
from importlib import resources

import pytest

FOLDER = resources.files("nbstream.web").joinpath("static")


@pytest.mark.parametrize("name", [entry.name for entry in FOLDER.iterdir()])
def test_nothing_is_fetched_from_elsewhere(name: str) -> None:
    text = FOLDER.joinpath(name).read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//\w+\.\w|@import|url\(", text)
