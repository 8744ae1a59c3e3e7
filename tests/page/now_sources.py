"""What the view now shows, made up for tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from nbstream.errors import StoreUnavailable
from nbstream.findings import Finding
from nbstream.page.now import Now, NowReader
from nbstream.store.activity import (
    ActivitySpan,
    ActivityWatch,
    ListenerConnections,
    ProcessStatus,
    SeenProcess,
    Slot,
    sum_activity,
)

HOSTILE = '<script>alert(1)</script>{{ 7 * 7 }}"\u202egnp.exe\x00' + "x" * 3000
SMTP_CONNECTIONS = ListenerConnections(3, 7, 1)


def make_now(
    span: ActivitySpan = ActivitySpan.HOUR,
    checks: Mapping[int, Mapping[Any, int]] | None = None,
    hosts: Sequence[str] = ("mx1",),
    findings: Sequence[Finding] = (),
    at: float | None = None,
    quarantined: int = 2,
) -> Now:
    """A state in which these checks were made so many minutes ago."""
    at = time.time() if at is None else at
    slots = {
        int(at) // 60 - ago: Slot(dict(counts), {5: sum(counts.values())})
        for ago, counts in (checks or {}).items()
    }
    processes = [
        SeenProcess(at, ProcessStatus(host, 0, "0.7.0", True, 0.0, quarantined, {"smtp": SMTP_CONNECTIONS}))
        for host in hosts
    ]
    return Now(
        at,
        sum_activity(span, slots, 60, at),
        at,
        processes,
        [("smtp", "127.0.0.1:10025", SMTP_CONNECTIONS), ("stream", "", None)],
        "embedded",
        True,
        0.0,
        0.0004,
        findings,
    )


class MadeUpReader(NowReader):
    """Shows what it was given; there is never any news."""

    def __init__(self, shown: Now) -> None:
        self.shown = shown

    async def now(self, span: ActivitySpan) -> Now:
        """The same state, whatever the span is."""
        activity = self.shown.activity
        return replace(self.shown, activity=replace(activity, span=span) if activity else None)

    @asynccontextmanager
    async def open_news(self) -> AsyncIterator[ActivityWatch]:
        """Fail, as there is no Redis."""
        raise StoreUnavailable("there is no Redis")
        yield  # type: ignore[unreachable]  # which makes it a generator

    async def close(self) -> None:
        """There is nothing to end."""
