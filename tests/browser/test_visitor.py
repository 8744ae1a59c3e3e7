"""The visitor itself: it notices what must not happen in a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import OpenVisitor
from tests.browser.visitor import NARROW, Look

WHOLE = (
    "<!doctype html><html lang=en><title>t</title><meta name=viewport content=width=device-width><main>%s</main>"
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("<script>console.error('oh')</script>", "console: oh"),
        ("<script>undefinedName()</script>", "script: "),
        ("<script>alert('hello')</script>", "dialog: hello"),
        ("<img alt='' src='http://192.0.2.1/x.png'>", "foreign request: http://192.0.2.1/x.png"),
        ("<img alt='' src='/missing.png'>", "answer: 404 "),
    ],
)
def test_what_must_not_happen_is_noticed(
    visit: OpenVisitor, origin: str, tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "page.html").write_text("<link rel=icon href=data:,>" + WHOLE % content)
    visitor = visit(origin)

    visitor.go("/page.html")

    visitor.page.wait_for_load_state("networkidle")
    assert [found for found in visitor.take_problems() if found.startswith(problem)]


def test_a_page_without_faults_has_no_problems(visit: OpenVisitor, origin: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<link rel=icon href=data:,>" + WHOLE % "<h1>Hello</h1>")
    visitor = visit(origin, Look(NARROW))

    assert visitor.go("/page.html").status == 200

    assert visitor.grave_violations() == []
    assert visitor.overflowing() == []


def test_a_page_that_is_hard_to_read_or_too_wide_is_noticed(
    visit: OpenVisitor, origin: str, tmp_path: Path
) -> None:
    wide = (
        "<div style='width: 2000px'>wide</div><p style='color: #ddd; background: #eee'>faint</p><img src=data:,>"
    )
    (tmp_path / "page.html").write_text("<link rel=icon href=data:,>" + WHOLE % wide)
    visitor = visit(origin)

    visitor.go("/page.html")

    assert "wide" in "".join(visitor.overflowing())
    found = "".join(visitor.grave_violations())
    assert "color-contrast" in found
    assert "image-alt" in found
    visitor.take_problems()


def test_what_scrolls_by_itself_makes_no_page_too_wide(visit: OpenVisitor, origin: str, tmp_path: Path) -> None:
    box = "<div style='overflow-x: auto'><div style='width: 2000px'>wide</div></div>"
    (tmp_path / "page.html").write_text("<link rel=icon href=data:,>" + WHOLE % box)
    visitor = visit(origin)

    visitor.go("/page.html")

    assert visitor.overflowing() == []


def test_colours_scripts_and_profiles_are_the_visitors_own(
    visit: OpenVisitor, origin: str, tmp_path: Path
) -> None:
    shown = "<p id=seen></p><script>document.cookie='a=1';seen.textContent=document.cookie</script>"
    (tmp_path / "page.html").write_text("<link rel=icon href=data:,>" + WHOLE % shown)
    first, second = visit(origin, Look(colors="dark")), visit(origin, Look(scripts=False))

    first.go("/page.html")
    second.go("/page.html")

    assert first.page.locator("#seen").text_content() == "a=1"
    assert second.page.locator("#seen").text_content() == ""
    assert first.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is True
