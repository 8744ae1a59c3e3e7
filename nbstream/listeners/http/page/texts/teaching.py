"""The texts of the view teaching."""

from __future__ import annotations

TEXTS = {
    "name": "Teaching",
}
