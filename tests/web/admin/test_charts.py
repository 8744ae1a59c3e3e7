"""``page.charts``."""

from __future__ import annotations

from nbstream.web.admin.charts import Frame
from tests.web.admin.svg import is_within_view_box, parse_svg


def test_texts_are_escaped() -> None:
    frame = Frame()
    drawing = frame.drawing("x", '<b>"', "<&", [frame.x_axis(frame.x_scale(0, 1), [(0.5, "<script>")])])

    root = parse_svg(drawing)
    assert root.attrib["aria-label"].startswith('<b>"')
    assert [text.text for text in root.iter("text")] == ["<script>"]
    assert is_within_view_box(root)
