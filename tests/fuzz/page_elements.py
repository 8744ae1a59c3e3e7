"""What a page may consist of, whatever the texts are that it shows."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_PATHS = re.compile(r"#[\w-]+|/ui/[^\s\"<>]*")
_FOREIGN = {"img", "iframe", "object", "embed", "base", "style"}
_HIDDEN = set("\0\a\x1b\u200b\u202e\u2066\u3164")


class _Elements(HTMLParser):
    def __init__(self, foreign: set[str]) -> None:
        super().__init__()
        self._foreign = foreign

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in self._foreign
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in {"style", "srcdoc"}
            if name in {"href", "src", "action"}:
                assert _PATHS.fullmatch(value or ""), value

    def handle_data(self, data: str) -> None:
        assert not _HIDDEN & set(data)


def assert_own_elements(html: str, *, has_charts: bool = False) -> None:
    """Assert that a page has no elements, attributes and addresses but our own, and shows what is hidden."""
    html.encode("utf-8", "replace")
    elements = _Elements(_FOREIGN if has_charts else {*_FOREIGN, "svg"})
    elements.feed(html)
    elements.close()
