"""The errors that no request for HTTP, spamd or stream should end with."""

from __future__ import annotations

from nbstream.server.message_service import UNEXPECTED_ERRORS
from tests.error_tables import error_classes

UNEXPECTED_CLASSES = [kind for parent in UNEXPECTED_ERRORS for kind in error_classes(parent)]
"""With the classes derived from them."""
