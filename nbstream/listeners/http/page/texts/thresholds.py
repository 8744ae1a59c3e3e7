"""The texts of the view thresholds."""

from __future__ import annotations

TEXTS = {
    "name": "Thresholds",
}
