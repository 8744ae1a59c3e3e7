"""What the page reports, for metrics and others."""

from __future__ import annotations

from typing import Protocol


class PageObserver(Protocol):
    """Is told of requests, of attempts to log in, and of browsers that are kept up to date."""

    def answered(self, status: int) -> None:
        """A request was answered with this HTTP status; that of an event stream, once it has ended."""

    def login_tried(self, method: str, *, accepted: bool) -> None:
        """Somebody tried to log in; ``method`` is link or password."""

    def stream_opened(self) -> None:
        """A browser began to listen to events."""

    def stream_closed(self) -> None:
        """A browser listens no more."""
