"""What a drawing consists of, for tests: parsed as XML, with all of its coordinates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

_HORIZONTAL, _VERTICAL = {"x", "x1", "x2", "cx"}, {"y", "y1", "y2", "cy"}


def parse_svg(drawing: str) -> ElementTree.Element:
    """The root of the drawing; fails where it is no XML."""
    return ElementTree.fromstring(drawing)


def coordinates(root: ElementTree.Element) -> Iterator[tuple[float, float]]:
    """Points that the drawing consists of; of lines and texts each coordinate, with 0 for the other one."""
    yield from _moved_coordinates(root, 0.0, 0.0)


def _moved_coordinates(element: ElementTree.Element, dx: float, dy: float) -> Iterator[tuple[float, float]]:
    if move := re.fullmatch(r"translate\(([-\w.]+) ([-\w.]+)\)", element.attrib.get("transform", "")):
        dx, dy = dx + float(move[1]), dy + float(move[2])
    for name, value in element.attrib.items():
        if name in _HORIZONTAL:
            yield float(value) + dx, 0.0
        elif name in _VERTICAL:
            yield 0.0, float(value) + dy
    if element.tag == "rect":
        yield (
            float(element.attrib["x"]) + float(element.attrib["width"]) + dx,
            float(element.attrib["y"]) + float(element.attrib["height"]) + dy,
        )
    for x, y in re.findall(r"([-\w.]+)[ ,]([-\w.]+)", element.attrib.get("points", "")):
        yield float(x) + dx, float(y) + dy
    for x, y in re.findall(r"[ML]([-\w.]+) ([-\w.]+?)(?=[MLZ]|$)", element.attrib.get("d", "")):
        yield float(x) + dx, float(y) + dy
    for child in element:
        yield from _moved_coordinates(child, dx, dy)


def is_within_view_box(root: ElementTree.Element) -> bool:
    """Whether all coordinates are numbers within the view box."""
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    # A hundredth more for rounding. A comparison with NaN is false.
    return all(-0.1 <= x <= width + 0.1 and -0.1 <= y <= height + 0.1 for x, y in coordinates(root))
