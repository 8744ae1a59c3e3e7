"""Metrics of the page, exported only where ``listeners.http`` is configured. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

if TYPE_CHECKING:
    from nbstream.metrics import MetricsRegistry


class RequestMetrics:
    """Count requests and attempts to log in, of the page that these two counters belong to."""

    def __init__(self, requests: Counter, logins: Counter) -> None:
        self._requests = requests
        self._logins = logins
        self._requests.labels("200")
        for method in ("link", "password"):
            for outcome in ("accepted", "refused"):
                self._logins.labels(method, outcome)

    def answered(self, status: int) -> None:
        """Count a request."""
        self._requests.labels(str(status)).inc()

    def login_tried(self, method: str, *, accepted: bool) -> None:
        """Count an attempt to log in."""
        self._logins.labels(method, "accepted" if accepted else "refused").inc()


class PageMetrics(RequestMetrics):
    """Count those of the page of administrators."""

    def __init__(self, registry: MetricsRegistry) -> None:
        super().__init__(
            Counter(
                "nbstream_page_requests",
                "Requests below /ui/, by HTTP status. Only with listeners.http.",
                ["status"],
                registry=registry.counts,
            ),
            Counter(
                "nbstream_page_logins",
                "Attempts to log in to the page, by method (link, password) and outcome (accepted, refused). Only "
                "with listeners.http.",
                ["method", "outcome"],
                registry=registry.counts,
            ),
        )
