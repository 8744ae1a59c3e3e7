"""The texts of the view quarantine."""

from __future__ import annotations

TEXTS = {
    "name": "Quarantine",
}
