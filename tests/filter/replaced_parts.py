"""A filter with some of its parts replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbstream.filter import Filter


def with_parts(spam_filter: Filter, **parts: Any) -> Filter:
    """The same filter, but with these parts; see ``FilterParts`` for their names."""
    return Filter(replace(spam_filter.parts, **parts), spam_filter.policy)
