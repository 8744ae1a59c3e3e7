"""The texts of the view messages."""

from __future__ import annotations

TEXTS = {
    "name": "Messages",
}
