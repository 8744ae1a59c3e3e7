"""The parts of a process, made from its settings: the one place where they are put together.

The library, the commands and the daemon have the same parts. They differ in where the counts are looked up: a
command asks Redis or reads a file, and the daemon has them in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from nbstream.correspondents.facts import FactHasher
from nbstream.correspondents.store import CorrespondentStore
from nbstream.daemon.assembly.filter import key_in, make_filter
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.assembly.store import DAY_SECONDS, make_model, make_own_model, open_running_redis
from nbstream.delivery.maildir import MaildirNextHop
from nbstream.delivery.settings import ServerNextHopSetting
from nbstream.engine.choice import choose_engine
from nbstream.filter.own_models.filters import OwnFilters
from nbstream.filter.own_models.index import UserLabels
from nbstream.filter.own_models.store import OwnModels
from nbstream.store import connection
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.follower.follower import WATCHED_BLOCK_SECONDS, Followed, Follower
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.recent.message_rows import normalize_address
from nbstream.store.state_file import StateFile

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis

    from nbstream.correspondents.facts import CorrespondentFacts
    from nbstream.daemon.assembly.store import RedisClients
    from nbstream.daemon.config import Settings
    from nbstream.delivery.next_hop import NextHop
    from nbstream.engine.choice import Engine
    from nbstream.filter import CheckQueue, CountSource, Filter, FilterObserver
    from nbstream.filter.canaries import Canaries
    from nbstream.policy.own_models.names import OwnModelNames
    from nbstream.web.users.digests import DigestOutcome, Digests

_CORRESPONDENTS_KEY_FILE = "correspondents.key"
_LESSON_SECONDS = 5.0  # of one command of Redis


class Parts:
    """The parts of one process, each made when it is first asked for; nothing is contacted or started.

    These are the parts of a command: the counts are looked up in Redis. A part that cannot be made of its settings
    raises ``ConfigError``.
    """

    check_queue: CheckQueue | None = None
    canaries: Canaries | None = None

    def __init__(self, settings: Settings, clients: RedisClients, engine: Engine | None = None) -> None:
        self.settings = settings
        self.clients = clients
        self.engine = engine or choose_engine()
        self.facts: CorrespondentFacts | None = None
        """What is known of correspondents, where ``read_facts`` has read it."""

    @cached_property
    def model(self) -> Model:
        """The model that the settings name."""
        return make_model(self.settings, self.clients.client)

    @cached_property
    def names(self) -> OwnModelNames:
        """Finds the own models and the user of an address, by the aliases that were read last."""
        return make_own_model_names(self.settings)

    @cached_property
    def own_models(self) -> OwnModels:
        """The own models in the memory of this process, none in the beginning."""
        settings, client = self.settings, self.clients.client
        return OwnModels(
            lambda name: make_own_model(settings, client, name),
            client,
            settings.model.name,
            library=self.engine.native_library,
        )

    @cached_property
    def recent_messages(self) -> RecentMessages:
        """The memory of the model's checked messages."""
        settings = self.settings
        return RecentMessages(
            self.clients.client,
            self.model.keys,
            settings.memory.model_copy(update={"envelope": settings.remembers_envelopes}),
            self.report_dropped,
            self.model.note_writes_accepted,
            user_of=self.user_of,
        )

    def report_dropped(self, number: int) -> None:
        """Note that this many messages could not be remembered."""

    def user_of(self, address: str) -> str:
        """Return the address of the user to whom mail for an address belongs."""
        return self.names.user_of(address)

    @cached_property
    def correspondent_store(self) -> CorrespondentStore | None:
        """What is stored of correspondents; None where they are off."""
        return _make_correspondent_store(self.settings, self.clients.client)

    async def read_facts(self) -> None:
        """Read what is known of correspondents, which is then used to make tokens. Raises ``StoreUnavailable``."""
        store = make_correspondent_reader(self.settings, self.clients.client)
        self.facts = (await store.load())[0] if store else None

    @property
    def counts(self) -> CountSource:
        """What looks up the counts."""
        return self.model

    @property
    def observer(self) -> FilterObserver | None:
        """What the filter reports to."""
        return None

    @property
    def known(self) -> Callable[[], CorrespondentFacts] | None:
        """What gives what is known of correspondents now; None where nothing is."""
        facts = self.facts
        return (lambda: facts) if facts else None

    @cached_property
    def spam_filter(self) -> Filter:
        """The filter over the model, by the policy at the start."""
        settings, has_automatic = self.settings, self.settings.autolearn is not None
        labels = UserLabels(self.clients.client, self.model.keys, settings.model.ledger_days * DAY_SECONDS)
        return make_filter(
            settings,
            self.model,
            self.counts,
            self.observer,
            known=self.known,
            checked_messages=self.recent_messages,
            uses_automatic=has_automatic,
            user_labels=labels if has_automatic else None,
            check_queue=self.check_queue,
            canaries=self.canaries,
            engine=self.engine,
        )

    @property
    def followed(self) -> Sequence[Followed]:
        """What the follower keeps equal to Redis: on a cluster what is in the slot of the common model."""
        buckets = () if self.settings.redis.cluster else self.own_models.buckets
        return (self.own_models.listed, *buckets)

    @cached_property
    def follower(self) -> Follower:
        """What keeps equal to Redis whatever is followed."""
        embedded = self.clients.embedded
        before_connect = embedded.ensure_running if embedded else None
        return Follower(self.clients.blocking_client, self.followed, before_connect, WATCHED_BLOCK_SECONDS)

    @cached_property
    def bucket_followers(self) -> Sequence[Follower]:
        """On a cluster the followers of own models, one for each bucket since an XREAD is for one slot.

        Each of them begins when a model of its bucket is wanted.
        """
        client = self.clients.blocking_client
        return [
            Follower(connection.client_of(client, bucket.stream), [bucket], bucket.wanted.wait)
            for bucket in (self.own_models.buckets if self.settings.redis.cluster else ())
        ]

    @cached_property
    def next_hop(self) -> NextHop:
        """Where mail goes next."""
        return make_next_hop(self.settings)

    @cached_property
    def state(self) -> StateFile:
        """The file in the state folder with what has to outlive this process."""
        return StateFile(self.settings.state_dir)


def make_next_hop(settings: Settings) -> NextHop:
    """Return where mail goes next."""
    if isinstance(settings.relay.next_hop, ServerNextHopSetting):
        # Imported here, since commands for a quarantine before a Maildir need no SMTP client.
        from nbstream.delivery.smtp_next_hop import SmtpNextHop  # noqa: PLC0415 - see above

        return SmtpNextHop(settings.relay, max_connections=settings.limits.max_connections)
    assert settings.maildir_folder is not None
    return MaildirNextHop(settings.maildir_folder)


def make_digests(
    parts: Parts, user_of: Callable[[str], str], count: Callable[[DigestOutcome], object] = lambda _: None
) -> Digests:
    """Return the digests of the quarantine, for settings with a section ``digest``.

    ``user_of`` returns the address of the user behind an address. Jinja2 is loaded here, and not before.
    """
    from nbstream.web.users.digest_mail import DigestRenderer  # noqa: PLC0415 - see above
    from nbstream.web.users.digest_state import DigestState  # noqa: PLC0415 - see above
    from nbstream.web.users.digests import Digests  # noqa: PLC0415 - see above
    from nbstream.web.users.links import LinkKeys  # noqa: PLC0415 - see above
    from nbstream.web.users.preferences import UserPreferences  # noqa: PLC0415 - see above

    settings, client, keys = parts.settings, parts.clients.client, parts.model.keys
    page, section = settings.user_page, settings.digest
    assert section is not None

    def may_log_in(address: str) -> bool:
        return page is not None and page.address_of(address, None) == address

    return Digests(
        section=section,
        folder=settings.quarantine_folder,
        user_of=lambda address: user_of(normalize_address(address)),
        kept_days=settings.quarantine.days,
        state=DigestState(parts.state),
        renderer=DigestRenderer(section, settings.quarantine.days, may_log_in),
        preferences=UserPreferences(client, keys),
        link_keys=LinkKeys(client, keys),
        next_hop=parts.next_hop,
        count=count,
    )


def _make_correspondent_store(settings: Settings, client: Redis) -> CorrespondentStore | None:
    if settings.correspondents is None:
        return None
    hasher = FactHasher(key_in(_correspondents_key_file(settings), "correspondents"))
    return CorrespondentStore(client, ModelKeys(settings.model.name).correspondents, hasher)


def make_correspondent_reader(settings: Settings, client: Redis) -> CorrespondentStore | None:
    """Return what is stored of correspondents, for a command; None where there is no key that it can read."""
    return _make_correspondent_store(settings, client) if _can_read_correspondents(settings) else None


def _correspondents_key_file(settings: Settings) -> Path:
    return settings.state_dir / _CORRESPONDENTS_KEY_FILE


def _can_read_correspondents(settings: Settings) -> bool:
    return settings.correspondents is not None and os.access(_correspondents_key_file(settings), os.R_OK)


async def read_correspondents(settings: Settings) -> CorrespondentFacts | None:
    """Return what is known of correspondents now, for a command; None where nothing is.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    if not _can_read_correspondents(settings):  # no server is started for nothing
        return None
    async with open_running_redis(settings) as clients:
        parts = Parts(settings, clients)
        await parts.read_facts()
        return parts.facts


@asynccontextmanager
async def open_one_shot_filter(
    settings: Settings, *, sign: bool = False, user: str | None = None, reads_messages: bool = False
) -> AsyncIterator[tuple[Filter, Model]]:
    """Open a filter that reads Redis itself, for commands that look at few messages, and its model.

    ``sign``: a model that is new gets the signature of this version. ``user`` is the address of somebody whose own
    model it is to be; without one it is the common model. ``reads_messages``: the filter is to take messages
    apart, and has to know of correspondents.

    Raises ``ConfigError``, ``StoreIncompatible`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_running_redis(settings) as clients:
        parts = Parts(settings, clients)
        await parts.model.open(sign=sign)
        if reads_messages:
            await parts.read_facts()
        common = parts.spam_filter
        try:
            if user is None:
                yield common, parts.model
                return
            # A copy of the own counts: there are few of them. A lesson waits until the copy has its change.
            followers = (parts.follower, *parts.bucket_followers)
            following = [asyncio.create_task(follower.run(), name="follower") for follower in followers]
            try:
                finding = OwnFilters(common, parts.names, parts.own_models, wait_seconds=0.0)
                own = await finding.for_user(user, sign=sign)
                yield own, own.parts.model if isinstance(own.parts.model, Model) else parts.model
            finally:
                for task in following:
                    await cancel_and_wait(task)
        finally:
            await common.wait_for_lesson_groups(_LESSON_SECONDS)  # whose callers were cancelled
