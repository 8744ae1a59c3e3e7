"""The parts of one process that serves mail: made once, from the settings at the start."""

from __future__ import annotations

import socket
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream import __version__
from nbstream.assembly.delivery import make_next_hop
from nbstream.assembly.filter import make_autolearner, make_filter
from nbstream.assembly.policy import make_own_model_names
from nbstream.assembly.store import (
    make_autolearn_model,
    make_correspondent_store,
    make_mirror,
    make_model,
    make_own_models,
    make_recent_messages,
    make_user_labels,
)
from nbstream.correspondents.store import Correspondents
from nbstream.daemon.background import BackgroundTasks
from nbstream.delivery.quarantine import Quarantine, QuarantineRetention
from nbstream.filter import (
    AutolearnLayer,
    AutolearnReconciler,
    CheckQueue,
    CompositeObserver,
    CountingObserver,
    KeptMailLearner,
    KeptMailWalk,
    RememberingObserver,
)
from nbstream.own_models.index import OwnModelExpiry, OwnModelIndex
from nbstream.store.activity import ActivityCounter, ActivityWriter, ListenerConnections, ProcessStatus
from nbstream.store.canaries import FOLDER as CANARY_FOLDER
from nbstream.store.canaries import Canaries
from nbstream.store.connection import PrimaryWatch
from nbstream.store.mirror.eviction import Evictor
from nbstream.store.recovery.lesson_restorer import LessonRestorer
from nbstream.store.sender_lists import FollowedSenderLists

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings
    from nbstream.daemon.metrics import DaemonMetrics
    from nbstream.delivery.next_hop import NextHop
    from nbstream.engine.choice import Engine
    from nbstream.filter import Autolearner, Filter, FilterObserver
    from nbstream.own_models.store import OwnModels
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.autolearn_layer import AutolearnModel
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages


# The activity of one process from settings: what it counts, and what it says of itself.


class ProcessReport:
    """What a process says of itself; ``worker`` is its number, None where it is the only one of its daemon."""

    def __init__(self, worker: int | None, mirror: Mirror, delivery: DeliveryMetrics) -> None:
        self._host = socket.gethostname()
        self._worker = worker or 0
        self._mirror = mirror
        self._delivery = delivery
        self._quarantined: int | None = None

    def name(self, settings: Settings) -> str:
        """Return the name of the process, which another one has only once this one has ended.

        Daemons with different state folders on one host may share a model.
        """
        folder = zlib.crc32(str(settings.state_dir).encode("utf-8", "surrogateescape"))
        return f"{self._host}/{folder:08x}/{self._worker}"

    def quarantine_swept(self, remaining: int) -> None:
        """Note how many messages are in the quarantine now."""
        self._quarantined = remaining

    def status(self) -> ProcessStatus:
        """Return how the process is now."""
        mirror = self._mirror
        return ProcessStatus(
            self._host,
            self._worker,
            __version__,
            mirror.totals is not None,
            round(mirror.lag_seconds, 1),
            self._quarantined,
            {
                listener: ListenerConnections(counts.open, counts.accepted, counts.refused)
                for listener, counts in sorted(self._delivery.connections().items())
            },
        )


@dataclass(frozen=True, slots=True)
class ActivityParts:
    """What counts in this process, what writes that to Redis, and what the process says of itself."""

    counter: ActivityCounter
    writer: ActivityWriter
    report: ProcessReport


def make_activity(
    settings: Settings,
    clients: RedisClients,
    model: Model,
    mirror: Mirror,
    metrics: DaemonMetrics,
    worker: int | None,
) -> ActivityParts | None:
    """Return the parts; None where no page shows it, neither here nor on another host."""
    if not settings.remembers_rows:
        return None
    counter, report = ActivityCounter(), ProcessReport(worker, mirror, metrics.delivery)
    metrics.delivery.report_unchecked_to(counter.count_unchecked)
    # The client that does not retry by itself: nothing may be counted twice.
    writer = ActivityWriter(
        clients.blocking_client,
        model.keys,
        counter,
        report.name(settings),
        report.status,
        metrics.store.activity_dropped,
    )
    writer.report_writes_to(model.note_writes_accepted)
    return ActivityParts(counter, writer, report)


@dataclass(frozen=True, slots=True)
class AutolearnParts:
    """The layer that is learned without people, and what learns it."""

    model: AutolearnModel
    mirror: Mirror
    layer: AutolearnLayer
    learner: Autolearner


def make_autolearn_parts(
    settings: Settings,
    clients: RedisClients,
    model: Model,
    mirror: Mirror,
    layer_mirror: Mirror,
    metrics: DaemonMetrics,
) -> AutolearnParts:
    """Return the parts beside ``model``, which people teach, and its ``mirror``."""
    layer_model = make_autolearn_model(settings, clients.client)
    layer = AutolearnLayer(layer_model, layer_mirror, make_user_labels(settings, clients.client))
    learner = make_autolearner(settings, model, mirror, layer, metrics.filter.autolearned)
    return AutolearnParts(layer_model, layer_mirror, layer, learner)


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts that the server runs and the listeners use.

    ``spam_filter`` decides by the settings at the start; the one in force is that of the runtime.
    """

    clients: RedisClients
    metrics: DaemonMetrics
    model: Model
    mirror: Mirror
    recent_messages: RecentMessages
    spam_filter: Filter
    next_hop: NextHop
    quarantine: Quarantine
    autolearn: AutolearnParts | None
    activity: ActivityParts | None
    sender_lists: FollowedSenderLists
    background: BackgroundTasks
    own_models: OwnModels
    correspondents: Correspondents | None


def make_parts(
    settings: Settings,
    engine: Engine,
    clients: RedisClients,
    metrics: DaemonMetrics,
    shared_memory: Path | None = None,
    worker: int | None = None,
) -> ServerParts:
    """Return the parts; nothing is contacted or started.

    Processes with the same folder ``shared_memory`` share the counts. ``worker`` is the number of this process
    among several, None where it is the only one.
    """

    def follow(followed: Model, name: str) -> Mirror:
        shared_folder = shared_memory / name if shared_memory else None
        return make_mirror(settings, clients, followed, engine, shared_folder)

    model = make_model(settings, clients.client, clients.journal)
    mirror = follow(make_model(settings, clients.blocking_client, clients.journal), "counts")
    if clients.journal:
        clients.journal.report_unrecorded_to(metrics.store.lessons_unrecorded)
    recent_messages = make_recent_messages(
        settings,
        model,
        metrics.store.not_remembered,
        make_own_model_names(settings).user_of,  # aliases that a reload brings are found after a restart
    )
    observers: list[FilterObserver] = [metrics.filter, RememberingObserver(recent_messages.remember)]
    activity = make_activity(settings, clients, model, mirror, metrics, worker)
    if activity:
        observers.append(CountingObserver(activity.counter.count))
    autolearn = None
    if settings.autolearn:
        layer_mirror = follow(make_autolearn_model(settings, clients.blocking_client), "autolearned")
        autolearn = make_autolearn_parts(settings, clients, model, mirror, layer_mirror, metrics)
        observers.append(autolearn.learner)
        metrics.watch_autolearned(autolearn.mirror)
    store, correspondents = make_correspondent_store(settings, clients.client), None
    if store:
        correspondents = Correspondents(store, metrics.correspondents.count)
        metrics.watch_correspondents(correspondents)
    spam_filter = make_filter(
        settings,
        model,
        mirror,
        CompositeObserver(*observers),
        known=correspondents.known_now if correspondents else None,
        checked_messages=recent_messages,
        autolearn_layer=autolearn.layer if autolearn else None,
        check_queue=CheckQueue(),
        canaries=Canaries(settings.state_dir / CANARY_FOLDER),
        engine=engine,
    )
    return ServerParts(
        clients,
        metrics,
        model,
        mirror,
        recent_messages,
        spam_filter,
        make_next_hop(settings),
        Quarantine(settings.quarantine_folder),
        autolearn,
        activity,
        FollowedSenderLists(clients.client, model.keys),
        BackgroundTasks(metrics.process.background_failed),
        make_own_models(settings, clients, engine),
        correspondents,
    )


BackgroundWork: TypeAlias = "tuple[str, Callable[[], Awaitable[None]]]"
"""The name of work that goes on until it is cancelled, and what does it."""


def background_work(
    settings: Settings, parts: ServerParts, runtime: Callable[[], Runtime], *, does_chores: bool
) -> Sequence[BackgroundWork]:
    """Return the work that goes on beside mail.

    ``runtime`` returns what is in force. ``does_chores``: this process also does what one of those that share a
    model does for all of them.
    """
    work: list[BackgroundWork] = [
        ("mirror", parts.mirror.run),
        ("memory", parts.recent_messages.run),
        ("sender lists", parts.sender_lists.run),
        ("own models", parts.own_models.run),
    ]
    if parts.correspondents:
        work += [("correspondents", parts.correspondents.follow), ("sent mail", parts.correspondents.record)]
    if parts.activity:
        work.append(("activity", parts.activity.writer.run))
    if parts.clients.embedded is None:
        work.append(("primary", PrimaryWatch(parts.clients.client).run))
    if parts.autolearn:
        work += [("auto mirror", parts.autolearn.mirror.run), ("autolearner", parts.autolearn.learner.run)]
    return [*work, *_chores(settings, parts, runtime)] if does_chores else work


def _kept_mail_work(
    parts: ServerParts, layer_mirror: Mirror, kept_seconds: float
) -> Callable[[], Awaitable[None]]:
    spam_filter = parts.spam_filter
    learner = KeptMailLearner(spam_filter.parts, spam_filter.policy, parts.metrics.filter.autolearned)
    walk = KeptMailWalk(learner, parts.recent_messages.oldest_between, kept_seconds)

    async def walk_when_loaded() -> None:
        await parts.mirror.loaded.wait()
        await layer_mirror.loaded.wait()
        await walk.run()

    return walk_when_loaded


def _own_model_work(settings: Settings, parts: ServerParts) -> Sequence[BackgroundWork]:
    days = settings.own_models.expire_days
    if days is None:
        return []
    index = OwnModelIndex(parts.clients.client, settings.model.name)
    return [("own model expiry", OwnModelExpiry(index, days).run)]


def _chores(settings: Settings, parts: ServerParts, runtime: Callable[[], Runtime]) -> Sequence[BackgroundWork]:
    model, autolearn, metrics = parts.model, parts.autolearn, parts.metrics

    def report_sweep(remaining: int, removed: int) -> None:
        metrics.delivery.quarantine_swept(remaining, removed)
        if parts.activity:
            parts.activity.report.quarantine_swept(remaining)

    retention = QuarantineRetention(parts.quarantine, settings.quarantine, report_sweep)
    chores: list[BackgroundWork] = [("retention", retention.run)]
    if settings.digest:
        # Imported here: where there are no digests, and no page, Jinja2 is not loaded.
        from nbstream.assembly.digests import make_digests  # noqa: PLC0415 - see above
        from nbstream.users.metrics import DigestMetrics  # noqa: PLC0415 - see above

        count = DigestMetrics(metrics.registry).count

        def user_of(address: str) -> str:
            return runtime().sender_lists.user_of(address)  # by the aliases that were read last

        digests = make_digests(settings, settings.digest, parts.clients.client, parts.next_hop, user_of, count)
        chores.append(("digest", digests.run))
    if parts.clients.journal:
        restorer = LessonRestorer(parts.clients.journal, model, parts.mirror, metrics.store.lessons_lost)
        chores.append(("restorer", restorer.run))
    if autolearn:
        layer_model = autolearn.model
        reconciler = AutolearnReconciler(autolearn.layer, lambda: layer_model.disputed_messages(model))
        chores.append(("reconciler", reconciler.run))
        if settings.kept_seconds is not None:
            chores.append(("kept mail", _kept_mail_work(parts, autolearn.mirror, settings.kept_seconds)))
    chores += _own_model_work(settings, parts)
    max_tokens = settings.model.max_tokens
    if max_tokens is not None:
        evictor = Evictor(model, parts.mirror, max_tokens, metrics.store.evicted)
        chores.append(("evictor", evictor.run))
        if autolearn:
            evictor = Evictor(autolearn.model, autolearn.mirror, max_tokens, metrics.store.evicted)
            chores.append(("auto evictor", evictor.run))
    return chores
