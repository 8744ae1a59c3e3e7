"""The parts of one process that serves mail: made once, from the settings at the start."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from nbstream.correspondents.store import Correspondents
from nbstream.daemon.assembly.delivery import make_next_hop
from nbstream.daemon.assembly.filter import make_autolearner, make_filter
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.assembly.store import (
    followed_of,
    make_correspondent_store,
    make_follower,
    make_model,
    make_own_models,
    make_recent_messages,
    make_user_labels,
)
from nbstream.delivery.quarantine import Quarantine, QuarantineRetention
from nbstream.filter import (
    CheckQueue,
    CompositeObserver,
    KeptMailLearner,
    KeptMailWalk,
    RememberingObserver,
)
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.server.background import BackgroundTasks
from nbstream.server.listener import ListenerContext
from nbstream.store.canaries import FOLDER as CANARY_FOLDER
from nbstream.store.canaries import Canaries
from nbstream.store.connection import look_for_primary
from nbstream.store.mirror.eviction import Evictor
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.sender_lists import FollowedSenderLists
from nbstream.store.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.addresses import ListenAddress
    from nbstream.daemon.assembly.store import RedisClients
    from nbstream.daemon.config import Settings
    from nbstream.daemon.metrics import DaemonMetrics
    from nbstream.delivery.next_hop import NextHop
    from nbstream.engine.choice import Engine
    from nbstream.filter import Autolearner, Filter, FilterObserver
    from nbstream.filter.own_models.store import OwnModels
    from nbstream.server.runtime import Runtime
    from nbstream.store.mirror.follower import Followed, Follower
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerParts:
    """The parts that the server runs and the listeners use.

    ``spam_filter`` decides by the settings at the start; the one in force is that of the runtime.
    ``bound_addresses`` has where each open listener listens, with the port that the system chose.
    """

    clients: RedisClients
    metrics: DaemonMetrics
    model: Model
    mirror: Mirror
    recent_messages: RecentMessages
    spam_filter: Filter
    next_hop: NextHop
    quarantine: Quarantine
    autolearner: Autolearner | None
    sender_lists: FollowedSenderLists
    background: BackgroundTasks
    own_models: OwnModels
    correspondents: Correspondents | None
    follower: Follower
    state: StateFile
    bound_addresses: dict[str, ListenAddress] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpContext(ListenerContext):
    """What the HTTP listener is made of: it shows what the whole daemon is and does.

    ``is_draining`` tells whether the process takes no more mail.
    """

    settings: Settings
    parts: ServerParts
    is_draining: Callable[[], bool]


def make_parts(
    settings: Settings,
    engine: Engine,
    clients: RedisClients,
    metrics: DaemonMetrics,
) -> ServerParts:
    """Return the parts; nothing is contacted or started."""
    model = make_model(settings, clients.client)
    mirror, own_models = Mirror(model, engine.native_library), make_own_models(settings, clients, engine)
    sender_lists = FollowedSenderLists(clients.client, model.keys)
    followed: list[Followed] = [sender_lists, mirror, *followed_of(settings, own_models)]
    user_of = make_own_model_names(settings).user_of  # aliases that a reload brings are found after a restart
    recent_messages = make_recent_messages(
        settings,
        model,
        metrics.store.not_remembered,
        user_of,
    )
    observers: list[FilterObserver] = [metrics.filter, RememberingObserver(recent_messages.remember)]
    autolearner = None
    if settings.autolearn:
        autolearner = make_autolearner(settings, model, mirror, metrics.filter.autolearned)
        observers.append(autolearner)
        metrics.watch_autolearned(mirror)
    store, correspondents = make_correspondent_store(settings, clients.client), None
    if store:
        correspondents = Correspondents(store, metrics.correspondents.count)
        followed.append(correspondents)
        metrics.watch_correspondents(correspondents)
    spam_filter = make_filter(
        settings,
        model,
        mirror,
        CompositeObserver(*observers),
        known=correspondents.known_now if correspondents else None,
        checked_messages=recent_messages,
        uses_automatic=autolearner is not None,
        user_labels=make_user_labels(settings, clients.client) if autolearner else None,
        check_queue=CheckQueue(),
        canaries=Canaries(settings.state_dir / CANARY_FOLDER),
        engine=engine,
    )
    return ServerParts(
        clients=clients,
        metrics=metrics,
        model=model,
        mirror=mirror,
        recent_messages=recent_messages,
        spam_filter=spam_filter,
        next_hop=make_next_hop(settings),
        quarantine=Quarantine(
            settings.quarantine_folder, settings.quarantine, user_of, metrics.delivery.quarantine_full
        ),
        autolearner=autolearner,
        sender_lists=sender_lists,
        background=BackgroundTasks(metrics.process.background_failed),
        own_models=own_models,
        correspondents=correspondents,
        follower=make_follower(clients, followed),
        state=StateFile(settings.state_dir),
    )


def start_background_work(
    settings: Settings, parts: ServerParts, runtime: Callable[[], Runtime], *, does_chores: bool
) -> None:
    """Start the work that goes on beside mail.

    ``runtime`` returns what is in force. ``does_chores``: this process also does what one of those that share a
    model does for all of them.
    """
    background = parts.background
    background.start("follower", parts.follower.run)
    background.start("memory", parts.recent_messages.run)
    background.every("own models", 60.0, parts.own_models.look)
    if parts.correspondents:
        background.start("sent mail", parts.correspondents.record)
    if parts.clients.embedded is None:
        background.every("primary", 2.0, partial(look_for_primary, parts.clients.client))
    if parts.autolearner:
        background.start("autolearner", parts.autolearner.run)
    if does_chores:
        _start_chores(settings, parts, runtime)


def _start_chores(settings: Settings, parts: ServerParts, runtime: Callable[[], Runtime]) -> None:
    background, model, metrics = parts.background, parts.model, parts.metrics
    retention = QuarantineRetention(parts.quarantine, settings.quarantine, metrics.delivery.quarantine_swept)
    background.every("retention", 60.0, retention.step)
    if settings.digest:
        # Imported here: where there are no digests, and no page, Jinja2 is not loaded.
        from nbstream.daemon.assembly.digests import make_digests  # noqa: PLC0415 - see above
        from nbstream.web.users.digests import DigestMetrics  # noqa: PLC0415 - see above

        count = DigestMetrics(metrics.registry).count

        def user_of(address: str) -> str:
            return runtime().sender_lists.user_of(address)  # by the aliases that were read last

        client, next_hop = parts.clients.client, parts.next_hop
        digests = make_digests(settings, client, next_hop, parts.state, user_of, count=count)
        background.every("digest", 60.0, lambda: digests.step(time.time()))
    if parts.autolearner and settings.kept_seconds is not None:
        _start_kept_mail(parts, settings.kept_seconds)
    unused_days = settings.own_models.expire_days
    if unused_days is not None:
        index = OwnModelIndex(parts.clients.client, settings.model.name)
        # Not at once, since the use of a model is noted while the daemon runs.
        background.every("own model expiry", 3600.0, partial(index.remove_unused, unused_days), waits_first=True)
    max_tokens = settings.model.max_tokens
    if max_tokens is not None:
        background.every("evictor", 0.0, Evictor(model, parts.mirror, max_tokens, metrics.store.evicted).step)


def _start_kept_mail(parts: ServerParts, kept_seconds: float) -> None:
    spam_filter = parts.spam_filter
    learner = KeptMailLearner(spam_filter.parts, spam_filter.policy, parts.metrics.filter.autolearned)
    walk = KeptMailWalk(learner, parts.recent_messages.oldest_between, kept_seconds)

    async def walk_when_loaded() -> None:
        await parts.mirror.loaded.wait()
        await walk.step()

    parts.background.every("kept mail", 60.0, walk_when_loaded)
