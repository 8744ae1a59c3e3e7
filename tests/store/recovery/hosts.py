"""A host as a failover sees it: a journal, a model behind a proxy, its mirror and its restorer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import Filter, FilterParts, FilterPolicy
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.connection import ClusterNodes, ConnectionOptions, SentinelNodes, open_client
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model.lesson_journal import FOLDER, LessonJournal
from nbstream.store.model.model import Model
from nbstream.store.recovery.lesson_restorer import LessonRestorer
from nbstream.store.recovery.missing_lessons import LessonFate
from nbstream.tokens.tokenizer import Tokenizer
from tests.store.mirror.mirrors import running


@dataclass
class Losses:
    """What a restorer has reported."""

    changes: int = 0
    findings: Counter[LessonFate] = field(default_factory=Counter)

    def report(self, changes: int, findings: Mapping[LessonFate, int]) -> None:
        self.changes += changes
        self.findings.update(findings)

    @property
    def restored(self) -> int:
        return self.findings[LessonFate.MISSING]


@dataclass(frozen=True)
class Host:
    """One process of a host; ``losses`` is what its restorer has reported."""

    journal: LessonJournal
    model: Model
    mirror: Mirror
    restorer: LessonRestorer
    losses: Losses
    spam_filter: Filter

    async def follow_other_server(self) -> None:
        """Return when the mirror has loaded what is there now, once more."""
        await self.mirror.wait_for_load_after(self.mirror.loads)


@asynccontextmanager
async def host_at(server: str | ClusterNodes | SentinelNodes, state_dir: Path) -> AsyncIterator[Host]:
    """A host that has opened the model ``test`` and loaded its counts; its restorer runs when a test says so."""
    options = ConnectionOptions(server, timeout_seconds=2, model="test")
    journal = LessonJournal(state_dir / FOLDER)
    client = open_client(options)
    following_client = open_client(options, retries=0)
    model = Model(client, "test", 3600, journal=journal)
    mirror = Mirror(Model(following_client, "test", 3600, journal=journal), 2.0)
    losses = Losses()
    parts = FilterParts(
        tokenizer=Tokenizer(), classifier=Classifier(), calibration=Calibration(), model=model, counts=mirror
    )
    try:
        await model.open()
        async with running(mirror):
            restorer = LessonRestorer(journal, model, mirror, losses.report)
            policy = FilterPolicy(ThresholdPolicy(), {})
            yield Host(journal, model, mirror, restorer, losses, Filter(parts, policy))
    finally:
        await client.aclose()
        await following_client.aclose()
        await journal.close()


@asynccontextmanager
async def restoring(host: Host) -> AsyncIterator[None]:
    """The restorer works by itself."""
    task = asyncio.create_task(host.restorer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
