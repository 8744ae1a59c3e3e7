"""What the pages point to is there: other pages, headings, files of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nbstream
from tests.harness.handbook_pages import OUTSIDE, PAGES, ROOT, name_of

PACKAGE = Path(nbstream.__file__).parent
_OUTSIDE = re.compile(r"https?://")
_NAMED = re.compile(
    r"`((?:nbstream|tests|deploy|docs|tools|\.ci"
    r"|mail|tokens|bayes|policy|store|filter|wire|relay|listeners|metrics|config|assembly|evaluation|daemon|cli)/[\w./-]*)`"
)
_HARAKAS = {"config/plugins", "config/rspamd.ini"}


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as mkdocs makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    words = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", word) for word in words}


@pytest.mark.parametrize("path", OUTSIDE, ids=name_of)
def test_every_link_of_the_pages_outside_of_docs_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text())
    assert links
    for link in links:
        if not _OUTSIDE.match(link):
            target, _, anchor = link.partition("#")
            assert (path.parent / target).exists(), link
            assert not anchor or anchor in anchors((path.parent / target).read_text()), link


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_file_of_the_repository_that_a_page_names_exists(path: Path) -> None:
    """From the top of the repository, or from that of the package; the pieces too, which stand in commands."""
    text = path.read_text()
    named = set(_NAMED.findall(text)) - _HARAKAS
    named |= set(re.findall(r"(?<![\w/.])(?:deploy|\.ci)/[\w./-]*\w", re.sub(r"\]\([^)]*\)", "", text)))

    assert [name for name in sorted(named) if not any((top / name).exists() for top in (ROOT, PACKAGE))] == []
