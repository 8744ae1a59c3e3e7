"""The texts that every page has."""

from __future__ import annotations

TEXTS = {
    "product": "nbstream",
    "navigation": "Views",
    "skip": "To the content",
    "logout": "Log out",
    "read_only": "read only",
    "old": "Redis cannot be reached: what is shown may be old, and nothing can be changed.",
}
