"""The texts of the view now."""

from __future__ import annotations

TEXTS = {
    "name": "Now",
}
