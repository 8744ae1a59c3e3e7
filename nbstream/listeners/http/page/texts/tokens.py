"""The texts of the view tokens."""

from __future__ import annotations

TEXTS = {
    "name": "Tokens",
}
