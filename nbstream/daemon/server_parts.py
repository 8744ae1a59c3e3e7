"""The parts of one process that serves mail, and the work that goes on beside mail."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from nbstream.correspondents.store import Correspondents
from nbstream.daemon.assembly.filter import make_autolearner
from nbstream.daemon.assembly.parts import Parts, make_digests
from nbstream.delivery.quarantine import Quarantine
from nbstream.filter import CheckQueue, CompositeObserver, ImplicitHamLearner, ImplicitHamWalk, RememberingObserver
from nbstream.filter.canaries import FOLDER as CANARY_FOLDER
from nbstream.filter.canaries import Canaries
from nbstream.filter.metrics import AutolearnGauges, ModelGauges
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.filter.own_models.metrics import OwnModelMetrics
from nbstream.server.background import BackgroundTasks
from nbstream.server.listener import ListenerContext
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.eviction import Evictor
from nbstream.store.sender_lists import FollowedSenderLists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.correspondents.facts import CorrespondentFacts
    from nbstream.daemon.assembly.store import RedisClients
    from nbstream.daemon.config import Settings
    from nbstream.daemon.metrics import DaemonMetrics
    from nbstream.engine.choice import Engine
    from nbstream.filter import Autolearner, FilterObserver, FilterPolicy
    from nbstream.server.runtime import Runtime
    from nbstream.store.follower.follower import Followed


class ServerParts(Parts):
    """The parts that the server runs and the listeners use.

    The counts are in memory, and what the filter does is counted, remembered, and learned without people.
    ``spam_filter`` decides by the settings at the start; the one in force is that of the runtime.
    """

    def __init__(
        self, settings: Settings, clients: RedisClients, metrics: DaemonMetrics, engine: Engine | None = None
    ) -> None:
        super().__init__(settings, clients, engine)
        self.metrics = metrics
        self.background = BackgroundTasks(metrics.process.background_failed)
        self.check_queue = CheckQueue()
        self.canaries = Canaries(settings.state_dir / CANARY_FOLDER)

    @cached_property
    def counts(self) -> FollowedCounts:
        """The counts in memory."""
        return FollowedCounts(self.model, self.engine.native_library)

    @cached_property
    def sender_lists(self) -> FollowedSenderLists:
        """The sender lists that people change while the daemon runs."""
        return FollowedSenderLists(self.clients.client, self.model.keys)

    @cached_property
    def correspondents(self) -> Correspondents | None:
        """What is known of correspondents; None where they are off."""
        store = self.correspondent_store
        return Correspondents(store, self.metrics.correspondents.count) if store else None

    @property
    def known(self) -> Callable[[], CorrespondentFacts] | None:
        """What gives what is known of correspondents now; None where they are off."""
        return self.correspondents.known_now if self.correspondents else None

    @cached_property
    def autolearner(self) -> Autolearner | None:
        """What learns without people; None where nothing does."""
        if self.settings.autolearn is None:
            return None
        return make_autolearner(self.settings, self.model, self.counts, self.metrics.filter.autolearned)

    @property
    def observer(self) -> FilterObserver:
        """What the filter reports to."""
        observers = [self.metrics.filter, RememberingObserver(self.recent_messages.remember), self.autolearner]
        return CompositeObserver(*(observer for observer in observers if observer))

    @property
    def followed(self) -> Sequence[Followed]:
        """What the follower keeps equal to Redis."""
        correspondents = [self.correspondents] if self.correspondents else []
        return (self.sender_lists, self.counts, *super().followed, *correspondents)

    @cached_property
    def quarantine(self) -> Quarantine:
        """Where messages with the action ``quarantine`` wait."""
        settings, is_full = self.settings, self.metrics.delivery.quarantine_full
        return Quarantine(settings.quarantine_folder, settings.quarantine, self.user_of, is_full)

    def export_state(self, policy: Callable[[], FilterPolicy]) -> None:
        """Export the state of all that is in memory; ``policy`` returns the one in force."""
        registry = self.metrics.registry
        ModelGauges(registry, self.counts, self.clients.primary, policy)
        OwnModelMetrics(registry, self.own_models)
        if self.autolearner:
            AutolearnGauges(registry, self.counts)
        if self.correspondents:
            self.metrics.correspondents.show(self.correspondents)

    def report_dropped(self, number: int) -> None:
        """Count messages that could not be remembered."""
        self.metrics.store.not_remembered(number)


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpContext(ListenerContext):
    """What the HTTP listener is made of: it shows what the whole daemon is and does.

    ``is_draining`` tells whether the process takes no more mail.
    """

    settings: Settings
    parts: ServerParts
    is_draining: Callable[[], bool]


def start_background_work(parts: ServerParts, runtime: Callable[[], Runtime], *, does_chores: bool) -> None:
    """Start the work that goes on beside mail.

    ``runtime`` returns what is in force. ``does_chores``: this process also does what one of those that share a
    model does for all of them.
    """
    background = parts.background
    for follower in (parts.follower, *parts.bucket_followers):
        background.start("follower", follower.run)
    background.start("memory", parts.recent_messages.run)
    background.every("own models", 60.0, parts.own_models.look)
    if parts.correspondents:
        background.start("sent mail", parts.correspondents.record)
    if parts.clients.embedded is None:
        background.every("primary", 2.0, partial(parts.follower.watch, parts.clients.client))
    if parts.autolearner:
        background.start("autolearner", parts.autolearner.run)
    if does_chores:
        _start_chores(parts, runtime)


def _start_chores(parts: ServerParts, runtime: Callable[[], Runtime]) -> None:
    settings, background, metrics = parts.settings, parts.background, parts.metrics
    background.every("retention", 60.0, partial(parts.quarantine.sweep, metrics.delivery.quarantine_swept))
    if settings.digest:
        # Imported here: where there are no digests, and no page, Jinja2 is not loaded.
        from nbstream.web.users.digests import DigestMetrics  # noqa: PLC0415 - see above

        count = DigestMetrics(metrics.registry).count

        def user_of(address: str) -> str:
            return runtime().sender_lists.user_of(address)  # by the aliases that were read last

        digests = make_digests(parts, user_of, count)
        background.every("digest", 60.0, lambda: digests.step(time.time()))
    if parts.autolearner and settings.kept_seconds is not None:
        _start_implicit_ham(parts, settings.kept_seconds)
    unused_days = settings.own_models.expire_days
    if unused_days is not None:
        index = OwnModelIndex(parts.clients.client, settings.model.name)
        # Not at once, since the use of a model is noted while the daemon runs.
        background.every("own model expiry", 3600.0, partial(index.remove_unused, unused_days), waits_first=True)
    max_tokens = settings.model.max_tokens
    if max_tokens is not None:
        evictor = Evictor(parts.model, parts.counts, max_tokens, metrics.store.evicted)
        background.every("evictor", 0.0, evictor.step)


def _start_implicit_ham(parts: ServerParts, kept_seconds: float) -> None:
    spam_filter = parts.spam_filter
    learner = ImplicitHamLearner(spam_filter.parts, spam_filter.policy, parts.metrics.filter.autolearned)
    walk = ImplicitHamWalk(learner, parts.recent_messages.oldest_between, kept_seconds)

    async def walk_when_loaded() -> None:
        await parts.counts.loaded.wait()
        await walk.step()

    parts.background.every("implicit ham", 60.0, walk_when_loaded)
