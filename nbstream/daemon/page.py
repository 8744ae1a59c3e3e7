"""The page from settings: its views, and who may log in."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nbstream.assembly.filter import make_scorer
from nbstream.assembly.store import make_row_search
from nbstream.bayes.clues import NamedCounts
from nbstream.bayes.counts import Totals
from nbstream.daemon.now import NowReader
from nbstream.listeners.http.bodies import BodyReader
from nbstream.listeners.http.page.forms import MAX_FORM_BYTES
from nbstream.listeners.http.page.lists import known_rows
from nbstream.listeners.http.page.login import PageLogin, PageSessions
from nbstream.listeners.http.page.message_view import PAGE_SOURCE, MessageLookups, MessageView
from nbstream.listeners.http.page.messages_view import MemoryOptions, MessagesView
from nbstream.listeners.http.page.metrics import PageMetrics
from nbstream.listeners.http.page.now_view import NowView
from nbstream.listeners.http.page.quarantine_view import PageQuarantine, QuarantineView
from nbstream.listeners.http.page.rendering import PageRenderer
from nbstream.listeners.http.page.server import PageServer
from nbstream.listeners.http.page.static_files import load_static_files
from nbstream.listeners.http.page.teaching_view import TeachingView
from nbstream.listeners.http.page.thresholds_view import ThresholdLookups, ThresholdsView
from nbstream.listeners.http.page.tokens_view import TokensView
from nbstream.listeners.http.page.undo_view import UndoView
from nbstream.policy.config_bounds import MAX_FIRST_SCORES
from nbstream.server.message_service import MessageHandler
from nbstream.store.logins import AttemptCounts, PageSessionStore
from nbstream.store.model.history import RecentChanges
from nbstream.store.recent.message_rows import QuarantineOutcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbstream.config import Settings
    from nbstream.daemon.health import HealthCheck
    from nbstream.daemon.model_lookups import ModelLookups
    from nbstream.daemon.parts import ServerParts
    from nbstream.filter.preview import HypotheticalCounts
    from nbstream.filter.scorer import Scorer
    from nbstream.listeners.http.access import PasswordCheck
    from nbstream.listeners.http.page.lists import FindRows
    from nbstream.listeners.http.page.requests import View
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.message_service import MessageService


def make_page(  # noqa: PLR0913, PLR0917 - what the listener has made already
    settings: Settings,
    parts: ServerParts,
    limits: ListenerLimits,
    bytes_in_flight: BytesInFlight,
    lookups: ModelLookups,
    message_service: MessageService,
    health_check: HealthCheck,
    passwords: PasswordCheck,
) -> PageServer:
    """Return the page with all its views; ``message_service`` and ``passwords`` are those of the listener."""
    section = settings.listeners.http
    assert section is not None

    def message_handler() -> MessageHandler:
        return MessageHandler(PAGE_SOURCE, message_service.runtime, parts.metrics.delivery)

    def policy_labels() -> Mapping[str, str]:
        return message_service.runtime.rules.patterns_by_name

    find_rows = known_rows(make_row_search(settings, parts.model))
    outcomes = QuarantineOutcomes(parts.model.client, parts.model.keys)
    quarantine = PageQuarantine(parts.quarantine, parts.next_hop, message_handler, outcomes.note)
    static_files = load_static_files()
    renderer = PageRenderer(static_files.version)
    views: list[View] = [
        NowView(NowReader(settings, parts, health_check, lookups.findings), renderer.render_parts),
        MessageView(_message_lookups(parts, lookups, find_rows, policy_labels), quarantine, message_handler),
        _make_thresholds(settings, parts, lookups, message_service),
        _make_messages(settings, parts, policy_labels),
        _make_teaching(parts, lookups, find_rows),
        _make_undo(settings, parts, lookups, find_rows),
        _make_tokens(parts),
        QuarantineView(quarantine, find_rows),
    ]
    store = PageSessionStore(parts.clients.client, parts.model.keys)
    return PageServer(
        views,
        PageLogin(store, passwords, AttemptCounts(parts.clients.client, parts.model.keys), section.allow_from),
        PageSessions(store, passwords.passwords),
        BodyReader(replace(limits, max_message_bytes=MAX_FORM_BYTES), bytes_in_flight, "a form"),
        static_files,
        renderer,
        PageMetrics(parts.metrics.registry),
    )


def _message_lookups(
    parts: ServerParts, lookups: ModelLookups, find_rows: FindRows, policy_labels: Callable[[], Mapping[str, str]]
) -> MessageLookups:
    return MessageLookups(
        lookups.message_record,
        parts.model.entry,
        parts.model.history.of_message,
        find_rows,
        policy_labels,
        lookups.autolearned_label,
    )


def _make_thresholds(
    settings: Settings, parts: ServerParts, lookups: ModelLookups, message_service: MessageService
) -> ThresholdsView:
    return ThresholdsView(
        ThresholdLookups(
            settings.model.name,
            MAX_FIRST_SCORES,
            lambda: parts.mirror.loaded_first_scores,
            lookups.model_state,
            lambda: message_service.runtime.rules,
        )
    )


def _make_teaching(parts: ServerParts, lookups: ModelLookups, find_rows: FindRows) -> TeachingView:
    return TeachingView(RecentChanges(parts.model.history), lookups.model_state, lookups.autolearned, find_rows)


def _make_undo(settings: Settings, parts: ServerParts, lookups: ModelLookups, find_rows: FindRows) -> UndoView:
    layer = parts.autolearn.mirror if parts.autolearn else None

    def scorer(counts: HypotheticalCounts) -> Scorer:
        return make_scorer(settings, counts, lookups.policy(), autolearned_counts=layer)

    return UndoView(parts.model, parts.recent_messages, scorer, find_rows)


def _make_tokens(parts: ServerParts) -> TokensView:
    mirror = parts.mirror

    def counts() -> NamedCounts:
        names, rows = mirror.snapshot()
        return NamedCounts(names, rows, mirror.totals or Totals(), mirror.half_life.unit(time.time()))

    return TokensView(lambda: mirror.vocabulary_size, counts)


def _make_messages(
    settings: Settings, parts: ServerParts, policy_labels: Callable[[], Mapping[str, str]]
) -> MessagesView:
    memory = settings.memory
    options = MemoryOptions(memory.messages, memory.hours, settings.remembers_envelopes)
    return MessagesView(make_row_search(settings, parts.model), options, parts.model.labels, policy_labels)
