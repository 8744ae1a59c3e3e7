"""Metrics of the areas, exported only where these are configured. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

if TYPE_CHECKING:
    from nbstream.metrics import MetricsRegistry


class RequestMetrics:
    """Count requests and attempts to log in of one area; no user is told from another."""

    def __init__(self, registry: MetricsRegistry, name: str, prefix: str, condition: str) -> None:
        self._requests = Counter(
            f"nbstream_{name}_requests",
            f"Requests below {prefix}, by HTTP status. Only with {condition}.",
            ["status"],
            registry=registry.counts,
        )
        self._logins = Counter(
            f"nbstream_{name}_logins",
            f"Attempts to log in below {prefix}, by method (link, password) and outcome (accepted, refused). Only "
            f"with {condition}.",
            ["method", "outcome"],
            registry=registry.counts,
        )
        self._requests.labels("200")
        for method in ("link", "password"):
            for outcome in ("accepted", "refused"):
                self._logins.labels(method, outcome)

    @classmethod
    def of_administrators(cls, registry: MetricsRegistry) -> RequestMetrics:
        """Return those of administrators."""
        return cls(registry, "page", "/ui/", "listeners.http")

    @classmethod
    def of_users(cls, registry: MetricsRegistry) -> RequestMetrics:
        """Return those of users."""
        return cls(registry, "user_page", "/my/", "user_page")

    def answered(self, status: int) -> None:
        """Count a request."""
        self._requests.labels(str(status)).inc()

    def login_tried(self, method: str, *, accepted: bool) -> None:
        """Count an attempt to log in."""
        self._logins.labels(method, "accepted" if accepted else "refused").inc()
