"""The page from its parts: its views, and who may log in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.assembly.filter import make_scorer
from nbstream.assembly.store import make_row_search
from nbstream.bayes.clues import NamedCounts
from nbstream.bayes.counts import Totals
from nbstream.filter.suspects import find_suspects
from nbstream.listeners.http.bodies import BodyReader
from nbstream.page.forms import MAX_FORM_BYTES
from nbstream.page.lists_view import ListsView
from nbstream.page.login import LoginPages, PageSessions
from nbstream.page.message_view import PAGE_SOURCE, MessageLookups, MessageView
from nbstream.page.messages_view import MessagesView, known_rows
from nbstream.page.metrics import PageMetrics
from nbstream.page.now_view import NowView
from nbstream.page.quarantine_view import PageQuarantine, QuarantineView
from nbstream.page.rendering import PageRenderer
from nbstream.page.requests import ADMIN_AREA
from nbstream.page.server import PageServer
from nbstream.page.static_files import load_static_files
from nbstream.page.teaching_view import TeachingView
from nbstream.page.thresholds_view import ThresholdsView
from nbstream.page.tokens_view import TokensView
from nbstream.page.undo_view import UndoView
from nbstream.server.message_service import MessageHandler
from nbstream.store.logins import AttemptCounts, LoginKeys, PageSessionStore
from nbstream.store.model.history import RecentChanges
from nbstream.store.recent.message_rows import QuarantineOutcomes
from nbstream.store.sender_lists import StoredSenderLists

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from nbstream.addresses import ListenAddress
    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings
    from nbstream.delivery.next_hop import NextHop
    from nbstream.delivery.quarantine import Quarantine
    from nbstream.filter.filter import MessageRecord
    from nbstream.filter.suspects import Suspect
    from nbstream.listeners.http.access import PasswordCheck
    from nbstream.listeners.http.settings import HttpListenerSettings
    from nbstream.metrics.registry import MetricsRegistry
    from nbstream.page.activity import ActivityRecorder
    from nbstream.page.now_view import DaemonFindings
    from nbstream.page.requests import View
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.verdict import ModelState
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.message_service import MessageService
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.autolearn_layer import AutolearnModel
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the page is made of: parts of the daemon, and of the HTTP listener that serves it.

    ``section``, ``limits`` and ``passwords`` are those of the listener. ``model_state`` returns None before the
    counts are loaded, and ``message_record`` what is known of a message by its id.
    """

    settings: Settings
    section: HttpListenerSettings
    limits: ListenerLimits
    bytes_in_flight: BytesInFlight
    passwords: PasswordCheck
    message_service: MessageService
    clients: RedisClients
    model: Model
    mirror: Mirror
    autolearn_model: AutolearnModel | None
    autolearn_mirror: Mirror | None
    recent_messages: RecentMessages
    next_hop: NextHop
    quarantine: Quarantine
    delivery_metrics: DeliveryMetrics
    registry: MetricsRegistry
    findings: DaemonFindings
    activity: ActivityRecorder
    bound_addresses: Mapping[str, ListenAddress]
    model_state: Callable[[], ModelState | None]
    message_record: Callable[[str], Awaitable[MessageRecord | None]]

    def message_handler(self) -> MessageHandler:
        """Return what teaches for the page, by the rules in force."""
        return MessageHandler(PAGE_SOURCE, self.message_service.runtime, self.delivery_metrics)

    def rules(self) -> RecipientRules:
        """Return the rules in force."""
        return self.message_service.runtime.rules

    def policy_labels(self) -> Mapping[str, str]:
        """Return the patterns of the recipients by the names of the policies in force."""
        return self.rules().patterns_by_name

    def class_names(self) -> Sequence[str]:
        """Return the classes that can be taught now."""
        return self.message_service.runtime.spam_filter.policy.class_names

    def autolearned(self) -> Mapping[str, int] | None:
        """Return how many messages of each class were learned without people; None where none are to be."""
        layer = self.autolearn_mirror
        return (layer.totals or Totals()).messages_by_label() if layer else None

    async def autolearned_label(self, message_key: str) -> str | None:
        """Return what a message was learned as without people, None if it was not. Raises ``StoreUnavailable``."""
        entry = await self.autolearn_model.entry(message_key) if self.autolearn_model else None
        return entry.label if entry else None

    async def find_suspects(self, message_keys: Iterable[str]) -> Sequence[Suspect]:
        """Return the learned messages whose label may be wrong. Raises ``StoreUnavailable``."""
        policy = self.message_service.runtime.spam_filter.policy
        scorer = make_scorer(self.settings, self.mirror, policy, autolearned_counts=self.autolearn_mirror)
        return await find_suspects(self.model, scorer, message_keys)

    def named_counts(self) -> NamedCounts:
        """Return all counts with their tokens. Raises ``StoreUnavailable`` before they are loaded."""
        names, rows = self.mirror.snapshot()
        return NamedCounts(names, rows, self.mirror.totals or Totals())


def make_page(parts: PageParts) -> PageServer:
    """Return the page with all its views."""
    settings, model, client = parts.settings, parts.model, parts.clients.client
    row_search = make_row_search(settings, model)
    find_rows = known_rows(row_search)
    outcomes = QuarantineOutcomes(model.client, model.keys)
    quarantine = PageQuarantine(parts.quarantine, parts.next_hop, parts.message_handler, outcomes.note)
    static_files = load_static_files()
    renderer = PageRenderer(static_files.version)
    views: list[View] = [
        NowView(settings, parts.mirror, parts.findings, parts.activity, parts.bound_addresses),
        MessagesView(
            row_search,
            settings.memory,
            settings.remembers_envelopes,
            model.labels,
            parts.policy_labels,
            parts.class_names,
        ),
        MessageView(
            MessageLookups(
                parts.message_record,
                model.entry,
                model.history.of_message,
                find_rows,
                parts.policy_labels,
                parts.autolearned_label,
                parts.class_names,
            ),
            quarantine,
            parts.message_handler,
        ),
        ThresholdsView(
            settings.model.name,
            lambda: parts.mirror.loaded_prequential_scores,
            parts.model_state,
            parts.rules,
        ),
        TeachingView(
            RecentChanges(model.history),
            parts.model_state,
            parts.autolearned,
            find_rows,
            parts.find_suspects,
            parts.class_names,
        ),
        UndoView(model, find_rows),
        TokensView(lambda: parts.mirror.vocabulary_size, parts.named_counts),
        QuarantineView(quarantine, find_rows),
        ListsView(
            StoredSenderLists(client, model.keys), lambda: parts.message_service.runtime.sender_lists.configured
        ),
    ]
    store = PageSessionStore(client, LoginKeys(model.keys.model))
    bodies = BodyReader(replace(parts.limits, max_message_bytes=MAX_FORM_BYTES), parts.bytes_in_flight, "a form")
    metrics = PageMetrics(parts.registry)
    counts = AttemptCounts(client, LoginKeys(model.keys.model))
    login = LoginPages(store, parts.passwords, counts, parts.section.allow_from, bodies, renderer, metrics)
    sessions = PageSessions(store, parts.passwords.passwords)
    return PageServer(ADMIN_AREA, views, login, sessions, bodies, static_files, renderer, metrics)
