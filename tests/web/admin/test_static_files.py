"""``nbstream.web.static_files``, and what the files may contain."""

from __future__ import annotations

import re

import pytest

from nbstream.web.static_files import StaticFiles, load_static_files


@pytest.fixture(scope="module")
def static_files() -> StaticFiles:
    return load_static_files()


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("GZIP", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("x-gzip", False),
    ],
)
def test_a_browser_gets_what_it_can_read(static_files: StaticFiles, accepted: str, is_packed: bool) -> None:
    fields = static_files.fields(static_files.files["page.css"], "", {"Accept-Encoding": accepted})
    assert ("Content-Encoding" in fields) is is_packed


def test_nothing_is_fetched_from_elsewhere(static_files: StaticFiles) -> None:
    for name, file in static_files.files.items():
        text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//\w+\.\w|@import|url\(", text), name
