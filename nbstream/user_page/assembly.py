"""The page of users from its parts."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.assembly.store import make_row_search
from nbstream.bayes.clues import TokenClues
from nbstream.listeners.http.bodies import BodyReader
from nbstream.page.forms import MAX_FORM_BYTES
from nbstream.page.metrics import RequestMetrics
from nbstream.page.rendering import PageRenderer
from nbstream.page.server import PageServer
from nbstream.page.static_files import load_static_files
from nbstream.policy.lesson_source import user_of_actor
from nbstream.store.logins import AttemptCounts, LoginKeys
from nbstream.store.recent.message_rows import QuarantineOutcomes, normalize_address
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.user_page.digest_view import DigestView
from nbstream.user_page.held_view import HeldView
from nbstream.user_page.lists_view import ListsView
from nbstream.user_page.login import LoginParts, UserLogin
from nbstream.user_page.message_view import MessageView
from nbstream.user_page.messages_view import MessagesView
from nbstream.user_page.own_mail import OwnExplanation, OwnMail, OwnMailParts
from nbstream.user_page.sessions import USER_AREA, UserSessions
from nbstream.user_page.texts import TEXTS
from nbstream.users.held_mail import HeldMail, HeldMailParts
from nbstream.users.links import LinkKeys
from nbstream.users.login_servers import make_login_server
from nbstream.users.preferences import UserPreferences
from nbstream.users.teacher import USER_PAGE_SOURCE, UserTeacher

if TYPE_CHECKING:
    from nbstream.metrics.registry import MetricsRegistry
    from nbstream.page.assembly import PageParts
    from nbstream.server.runtime import Runtime
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.users.page_settings import UserPageSettings


def make_user_page(parts: PageParts, section: UserPageSettings) -> PageServer:
    """Return the page with all its views; ``parts`` are those of the page of administrators."""
    settings, model, client = parts.settings, parts.model, parts.clients.client
    address_of = partial(section.address_of, domain=settings.own_models.domain)

    def runtime() -> Runtime:
        return parts.message_service.runtime

    def user_of(address: str) -> str:
        return runtime().sender_lists.user_of(normalize_address(address))

    async def recall(message_id: str) -> CheckedMessage | None:
        return await runtime().spam_filter.recall(message_id)

    async def label(address: str, message_id: str) -> str | None:
        (own_filter,) = await runtime().filters_for([address])
        entry = await own_filter.parts.model.entry(message_id)
        # Others may teach the same model.
        teachers = (entry.actor, address_of(user_of_actor(entry.actor))) if entry else ()
        return entry.label if entry and address in teachers else None

    async def explain(address: str, checked: CheckedMessage) -> OwnExplanation:
        (own_filter,) = await runtime().filters_for([address])
        check = await own_filter.check_tokens(checked.key, checked.tokens)
        treatment = parts.rules().treatment_of(address)
        decided = await runtime().spam_filter.decide_for_treatment(check, treatment)
        is_corrected = isinstance(check.clues, TokenClues) and any(check.clues.own_levels)
        return OwnExplanation(decided.explain(time.time()), is_corrected)

    teacher = UserTeacher(USER_PAGE_SOURCE, runtime)
    outcomes = QuarantineOutcomes(client, model.keys)
    held_parts = HeldMailParts(parts.quarantine, parts.next_hop, runtime, teacher, outcomes.note, user_of)
    held = HeldMail(held_parts)
    rows = make_row_search(settings, model)
    mail = OwnMail(OwnMailParts(rows, recall, label, explain, parts.quarantine, held, runtime, user_of))
    views = [
        HeldView(mail),
        MessagesView(mail, settings.remembers_envelopes),
        MessageView(mail, held, teacher),
        ListsView(StoredSenderLists(client, model.keys)),
        DigestView(UserPreferences(client, model.keys)),
    ]
    keys = LoginKeys(settings.model.name, "my")
    static_files = load_static_files()
    renderer = PageRenderer(static_files.version, "nbstream.user_page", texts=TEXTS)
    bodies = BodyReader(replace(parts.limits, max_message_bytes=MAX_FORM_BYTES), parts.bytes_in_flight, "a form")
    sessions = UserSessions(client, keys, address_of)
    metrics = UserPageMetrics(parts.registry)
    login = UserLogin(
        LoginParts(
            make_login_server(section),
            LinkKeys(client, model.keys),
            sessions,
            AttemptCounts(client, keys),
            address_of,
            parts.section.allow_from,
            bodies,
            renderer,
            metrics,
        )
    )
    return PageServer(USER_AREA, views, login, sessions, bodies, static_files, renderer, metrics)


# Metrics of the page of users, exported only where ``user_page`` is configured. Names are a contract.


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
