"""Each view with 0, 10 and 10,000 remembered messages: reachable, readable by all, and within its window."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site
from tests.browser.visitor import NARROW, Look, Visitor

pytestmark = pytest.mark.timeout(300)  # some dozens of pages, and 10,000 messages are written first

FURTHER_VIEWS = (
    "/ui/messages?verdict=spam",
    "/ui/undo",
    "/ui/undo?since=1d",
    "/ui/quarantine?select=all",
)


def touching_labels(visitor: Visitor) -> list[str]:
    """The labels of charts that lie on each other."""
    found: list[str] = visitor.page.evaluate(_TOUCHING)
    return found


_TOUCHING = """() => [...document.querySelectorAll('svg.drawing')].flatMap((chart) => {
  const labels = [...chart.querySelectorAll('text')]
    .map((label) => [label.textContent, label.getBoundingClientRect()]).filter(([, box]) => box.width)
  const touches = (box, other) => box.left < other.right && other.left < box.right
    && box.top < other.bottom - 1 && other.top < box.bottom - 1
  return labels.flatMap(([text, box], number) => labels.slice(number + 1)
    .filter(([, other]) => touches(box, other)).map(([other]) => `${text} lies on ${other}`))
})"""


def broken_words(visitor: Visitor) -> list[str]:
    """Words of a usual length that go over the end of a line."""
    found: list[str] = visitor.page.evaluate(_BROKEN)
    return found


_BROKEN = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const found = []
  while (texts.nextNode()) {
    if (texts.currentNode.parentElement.closest('svg, pre, script')) continue
    for (const word of texts.currentNode.data.matchAll(/(?<!\\S)[\\p{L}\\p{N}.@]{2,}(?!\\S)/gu)) {
      const range = document.createRange()
      range.setStart(texts.currentNode, word.index)
      range.setEnd(texts.currentNode, word.index + word[0].length)
      const pieces = [...range.getClientRects()]
      const lines = new Set(pieces.map((piece) => Math.round(piece.top)))
      const length = pieces.reduce((sum, piece) => sum + piece.width, 0)
      if (lines.size > 1 && length < 150) found.push(`broken: ${word[0]}`)
    }
  }
  return found.slice(0, 5)
}"""


def narrow_charts(visitor: Visitor) -> list[str]:
    """The charts that leave a part of their card empty at a side."""
    found: list[str] = visitor.page.evaluate(_NARROW_CHARTS)
    return found


_NARROW_CHARTS = """() => [...document.querySelectorAll('svg.drawing')].flatMap((chart) => {
  const style = getComputedStyle(chart.parentElement)
  const room = chart.parentElement.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
  const width = chart.getBoundingClientRect().width
  return width < room - 1 ? [`a chart is ${width} wide of ${room}`] : []
})"""


def nameless_columns(visitor: Visitor) -> list[str]:
    """The heads of tables, names of facts and labels without a word."""
    found: list[str] = visitor.page.evaluate(_NAMELESS)
    return found


_NAMELESS = """() => [...document.querySelectorAll('th, dt, label, button, summary, legend')]
  .filter((label) => !label.textContent.trim() && !label.getAttribute('aria-label'))
  .map((label) => `without a word: ${label.outerHTML}`)"""


def tables_without_words(visitor: Visitor) -> list[str]:
    """The tables of which a screen reader says too little: no caption, or cells that are none for it."""
    found: list[str] = visitor.page.evaluate(_TABLES)
    return found


# What is no longer laid out as a table needs roles: else not every browser takes it for one.
_TABLES = """() => [...document.querySelectorAll('table')].flatMap((table) => {
  const roles = {TABLE: 'table', THEAD: 'rowgroup', TBODY: 'rowgroup', TR: 'row', TD: 'cell'}
  const roleOf = (part) => roles[part.tagName] ?? (part.scope === 'row' ? 'rowheader' : 'columnheader')
  const name = table.caption?.textContent.trim()
  const parts = [table, ...table.querySelectorAll('thead, tbody, tr, th, td')]
  return [
    ...(name ? [] : [`no caption: ${table.outerHTML.slice(0, 200)}`]),
    ...[...table.querySelectorAll('th:not([scope])')].map((cell) => `no scope: ${cell.outerHTML} of ${name}`),
    ...parts.filter((part) => !getComputedStyle(part).display.startsWith('table')
      && part.getAttribute('role') !== roleOf(part)).slice(0, 3)
      .map((part) => `no role ${roleOf(part)}: ${part.outerHTML.slice(0, 100)} of ${name}`),
  ]
})"""


def faults(visitor: Visitor, path: str, *, has_axe: bool) -> list[str]:
    """What is wrong with a view, as this visitor sees it; ``has_axe``: and as a screen reader does."""
    response = visitor.go(path)
    headings = visitor.page.get_by_role("heading", level=1).count()
    return [
        *([f"status {response.status}"] if response.status != 200 else []),
        *([f"{headings} main headings"] if headings != 1 else []),
        *(visitor.grave_violations() if has_axe else []),
        *visitor.overflowing(),
        *touching_labels(visitor),
        *broken_words(visitor),
        *narrow_charts(visitor),
        *nameless_columns(visitor),
        *tables_without_words(visitor),
        *visitor.take_problems(),
    ]


def all_views(visitor: Visitor) -> list[str]:
    """Where the navigation leads to, and the views to which other links lead."""
    visitor.go("/ui/")
    links = visitor.page.get_by_role("navigation", name="Views").get_by_role("link").all()
    return [*(str(link.get_attribute("href")) for link in links), *FURTHER_VIEWS]


def first_messages(visitor: Visitor) -> list[str]:
    """Where the first lines of the lists of messages lead to; an empty list has none."""
    found = []
    for path in ("/ui/messages", "/ui/quarantine"):
        visitor.go(path)
        found += [str(link.get_attribute("href")) for link in visitor.page.locator("td > a").all()[:1]]
    return found


def faults_by_view(visitor: Visitor, *, has_axe: bool = True) -> dict[str, list[str]]:
    """The views with faults, and what is wrong with them, and one message of each list."""
    paths = [*all_views(visitor), *first_messages(visitor)]
    found = {path: faults(visitor, path, has_axe=has_axe) for path in paths}
    return {path: of_view for path, of_view in found.items() if of_view}


@pytest.mark.parametrize("name", ["small_site", pytest.param("large_site", marks=pytest.mark.soak)])
def test_every_view_is_readable_on_a_narrow_dark_screen(
    visit: OpenVisitor, request: pytest.FixtureRequest, name: str
) -> None:
    site: Site = request.getfixturevalue(name)
    visitor = visit(site.origin, Look(NARROW, "dark"))
    site.log_in(visitor)

    # The elements of many messages are those of ten; axe-core takes the longest for them.
    assert faults_by_view(visitor, has_axe=name != "large_site") == {}


def test_every_empty_view_is_readable_on_a_wide_light_screen(visit: OpenVisitor, empty_site: Site) -> None:
    visitor = visit(empty_site.origin, Look())
    empty_site.log_in(visitor)

    assert faults_by_view(visitor) == {}


@pytest.mark.soak
def test_every_view_says_the_same_without_scripts(visit: OpenVisitor, small_site: Site) -> None:
    plain, scripted = visit(small_site.origin, Look(scripts=False)), visit(small_site.origin)
    for visitor in (plain, scripted):
        small_site.log_in(visitor)

    for path in all_views(plain):
        scripted.go(path)
        plain.go(path)
        headings = scripted.page.get_by_role("heading").all_inner_texts()
        assert plain.page.get_by_role("heading").all_inner_texts() == headings, path
