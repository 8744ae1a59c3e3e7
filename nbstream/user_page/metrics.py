"""Metrics of the page of users, exported only where ``user_page`` is configured. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.page.metrics import RequestMetrics

if TYPE_CHECKING:
    from nbstream.metrics.registry import MetricsRegistry


class UserPageMetrics(RequestMetrics):
    """Count requests and attempts to log in; no user is told from another."""

    def __init__(self, registry: MetricsRegistry) -> None:
        super().__init__(
            Counter(
                "nbstream_user_page_requests",
                "Requests below /my/, by HTTP status. Only with user_page.",
                ["status"],
                registry=registry.counts,
            ),
            Counter(
                "nbstream_user_page_logins",
                "Attempts of users to log in to their page, by method (link, password) and outcome (accepted, "
                "refused). Only with user_page.",
                ["method", "outcome"],
                registry=registry.counts,
            ),
        )
