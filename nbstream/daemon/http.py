"""What the HTTP listener and the one for metrics serve, made of the parts of the process: routes and pages.

It stands here and not in the room of the protocol, because it shows what stands above it: health, the model and
the pages. It is imported where such a listener is made: in all commands, Jinja2 is not loaded.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon.health import NEXT_HOP_AWAY, HealthCheck
from nbstream.daemon.model_lookups import ModelLookups
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.rspamd.api import RspamdApi
from nbstream.server.http.access import HttpAccess, PasswordCheck, Passwords
from nbstream.server.http.listener import HttpListener, health_routes, metrics_route
from nbstream.server.http.responses import BodyReader
from nbstream.server.message_service import MessageHandler
from nbstream.store.logins import AttemptCounts, PageSessionStore
from nbstream.store.model.history import RecentChanges
from nbstream.store.recent.message_rows import QuarantineOutcomes, RowSearch, normalize_address
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.web.admin.login import AdminAuthenticator
from nbstream.web.admin.message_view import PAGE_SOURCE, MessageLookups, MessageView
from nbstream.web.admin.messages_view import MessagesView
from nbstream.web.admin.now_view import NowView
from nbstream.web.admin.teaching_view import TeachingView
from nbstream.web.admin.thresholds_view import ThresholdsView
from nbstream.web.admin.undo_view import UndoView
from nbstream.web.areas import ADMIN_AREA, PREFIX, USER_AREA, USER_PREFIX
from nbstream.web.forms import MAX_FORM_BYTES
from nbstream.web.lists_view import ListsView
from nbstream.web.login import Login
from nbstream.web.metrics import RequestMetrics
from nbstream.web.quarantine import WebQuarantine
from nbstream.web.quarantine_view import QuarantineView, UserQuarantineView
from nbstream.web.rendering import PageRenderer
from nbstream.web.server import WebServer
from nbstream.web.sessions import Sessions
from nbstream.web.user import views as user_views
from nbstream.web.user.links import LinkMetrics, LinkView
from nbstream.web.user.login import MailboxAuthenticator
from nbstream.web.user.own_mail import OwnMail
from nbstream.web.users.links import LinkKeys
from nbstream.web.users.login_servers import make_login_server
from nbstream.web.users.preferences import UserPreferences

DIGEST_SOURCE = "digest"
"""The source of what users teach by the links of a digest."""

USER_PAGE_SOURCE = "my"
"""The source of what users teach on their page."""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbstream.daemon.server_parts import HttpContext
    from nbstream.findings import Finding
    from nbstream.listeners.http import HttpListenerSettings
    from nbstream.server.runtime import Runtime
    from nbstream.web.areas import Area
    from nbstream.web.requests import View
    from nbstream.web.users.settings import DigestSettings, UserPageSettings


_HEALTH_SECONDS = 2.0  # that a page waits for the next hop


def make_metrics_listener(context: HttpContext) -> HttpListener:
    """Return a listener with ``/metrics`` and nothing else, for whoever can reach it."""
    return HttpListener([metrics_route(context.registry.render)], limits=context.message_service.limits)


def make_http_listener(section: HttpListenerSettings, context: HttpContext) -> HttpListener:
    """Return the listener with all its routes and pages."""
    settings, parts, message_service = context.settings, context.parts, context.message_service
    passwords = PasswordCheck(
        Passwords(
            *(
                file.secret.get_secret_value() if file else None
                for file in (section.password_file, section.write_password_file)
            )
        ),
        AttemptCounts(context.client, context.keys),
    )
    model_lookups = ModelLookups(settings, parts, lambda: message_service.runtime.spam_filter.policy)
    health_check = HealthCheck(parts, context.is_draining)
    lookups = ApiLookups(settings.model.name, model_lookups.model_status, model_lookups.message_record)
    bodies = BodyReader(message_service.limits, message_service.bytes_in_flight)
    rspamd = RspamdApi(
        message_service,
        bodies,
        lookups,
        version=__version__,
        health=health_check.status,
        verdicts=parts.metrics.delivery.verdicts,
        recent=parts.recent_messages.newest,
    )
    routes = [
        metrics_route(context.registry.render),
        *health_routes(health_check.status),
        *ApiV1(message_service, bodies, lookups, __version__).routes(),
        *rspamd.routes(),
    ]
    web = _WebMaker(section, context, passwords).server(health_check, model_lookups)
    access = HttpAccess(passwords, section.allow_from, lambda: message_service.teachers)
    return HttpListener(routes, access, message_service=message_service, pages=web)


class _WebMaker:
    """Makes the web interface of a listener."""

    def __init__(self, section: HttpListenerSettings, context: HttpContext, passwords: PasswordCheck) -> None:
        self._section = section
        self._context = context
        self._parts = context.parts
        self._passwords = passwords
        self._rows = RowSearch(context.client, context.keys, context.settings.memory.hours * 3600)
        self._outcomes = QuarantineOutcomes(context.client, context.keys)
        self._lists = StoredSenderLists(context.client, context.keys)
        self._preferences = UserPreferences(context.client, context.keys)
        self._link_keys = LinkKeys(context.client, context.keys)
        keys = context.keys
        self._logins = PageSessionStore(context.client, keys)
        self._counts = AttemptCounts(context.client, keys)

    def server(self, health_check: HealthCheck, lookups: ModelLookups) -> WebServer:
        """Return the server of all that is configured."""
        context, section, user_page = self._context, self._section, self._context.settings.user_page
        areas = [self._admin_area(health_check, lookups)]
        if user_page or context.settings.digest:
            areas.append(self._user_area(user_page, context.settings.digest))
        limits = context.message_service.limits._replace(max_message_bytes=MAX_FORM_BYTES)
        bodies = BodyReader(limits, context.message_service.bytes_in_flight, "a form")
        renderer = PageRenderer()
        address_of = self._address_of(user_page) if user_page else lambda _: None
        login = Login(
            sessions=Sessions(self._logins, self._passwords.passwords, address_of),
            counts=self._counts,
            allow_from=section.allow_from,
            bodies=bodies,
            renderer=renderer,
        )
        return WebServer(areas, login=login, bodies=bodies, renderer=renderer)

    def _address_of(self, section: UserPageSettings) -> Callable[[str], str | None]:
        """Return what finds the address of a user who may log in, by their name."""
        return partial(section.address_of, domain=self._context.settings.own_models.domain)

    def _admin_area(self, health_check: HealthCheck, lookups: ModelLookups) -> Area:
        """Return all mail, for administrators."""
        context, parts, settings, model = self._context, self._parts, self._context.settings, self._parts.model
        find_rows = self._rows.rows

        async def findings() -> Sequence[Finding]:
            found = list(health_check.redis_findings())
            try:
                async with asyncio.timeout(_HEALTH_SECONDS):
                    found += await health_check.other_findings()
            except TimeoutError:  # only the next hop is waited for
                found.append(NEXT_HOP_AWAY(problem="no answer"))
            return [*found, *lookups.findings()]

        quarantine = self._quarantine(PAGE_SOURCE)
        message_lookups = MessageLookups(
            record=lookups.message_record,
            ledger_entry=model.entry,
            history=model.history.of_message,
            rows=find_rows,
            policy_labels=self._policy_labels,
            class_names=lookups.class_names,
        )
        changes = RecentChanges(model.history)
        views: list[View] = [
            NowView(findings, self._rows, model.labels, changes),
            MessagesView(
                self._rows,
                settings.memory,
                settings.remembers_envelopes,
                model.labels,
                self._policy_labels,
                lookups.class_names,
            ),
            MessageView(message_lookups, quarantine, self._message_handler(PAGE_SOURCE)),
            ThresholdsView(
                settings.model.name,
                lambda: parts.counts.loaded_prequential_scores,
                lookups.model_state,
                lambda: self._runtime().rules,
            ),
            TeachingView(
                changes,
                model_state=lookups.model_state,
                autolearned=lookups.autolearned,
                find_rows=find_rows,
                find_suspects=lookups.find_suspects,
                class_names=lookups.class_names,
                learned_by_class=lookups.learned_by_class,
            ),
            UndoView(model, find_rows, lookups.class_names),
            QuarantineView(quarantine, find_rows, self._runtime),
            ListsView(PREFIX, self._lists, lambda: self._runtime().sender_lists.configured),
        ]
        return ADMIN_AREA._replace(
            views=views,
            authenticator=AdminAuthenticator(self._logins, self._passwords),
            metrics=RequestMetrics.of_administrators(context.registry),
        )

    def _user_area(self, section: UserPageSettings | None, digest: DigestSettings | None) -> Area:
        """Return the mail of one address, for its user, and the pages behind the links of a digest."""
        context, languages = self._context, USER_AREA.languages
        area = USER_AREA
        if digest:
            quarantine, metrics = self._quarantine(DIGEST_SOURCE), LinkMetrics(context.registry)
            area = area._replace(
                languages=sorted(languages, key=lambda language: language != digest.language),
                views=[LinkView(quarantine, self._preferences, self._link_keys, metrics)],
            )
        if section is None:
            return area
        quarantine = self._quarantine(USER_PAGE_SOURCE)
        address_of = self._address_of(section)
        mail = OwnMail(
            rows=self._rows,
            runtime=self._runtime,
            user_of=self._user_of,
            address_of=address_of,
        )
        views = [
            UserQuarantineView(quarantine, mail.why),
            user_views.MessagesView(mail, context.settings.remembers_envelopes),
            user_views.MessageView(mail, quarantine),
            ListsView(USER_PREFIX, self._lists),
            user_views.DigestView(self._preferences),
        ]
        authenticator = MailboxAuthenticator(
            server=make_login_server(section),
            links=self._link_keys,
            counts=self._counts,
            address_of=address_of,
        )
        return area._replace(
            views=[*area.views, *views],
            authenticator=authenticator,
            metrics=RequestMetrics.of_users(context.registry),
        )

    def _quarantine(self, source: str) -> WebQuarantine:
        """Return the quarantine; what is taught with it has this source."""
        parts = self._parts
        return WebQuarantine(
            parts.quarantine, parts.next_hop, self._message_handler(source), self._outcomes.note, self._user_of
        )

    def _runtime(self) -> Runtime:
        """Return what is in force now."""
        return self._context.message_service.runtime

    def _user_of(self, address: str) -> str:
        return self._runtime().sender_lists.user_of(normalize_address(address))

    def _message_handler(self, source: str) -> Callable[[], MessageHandler]:
        """Return what makes a teacher with this source, by the rules in force."""
        return lambda: MessageHandler(source, self._runtime(), self._context.message_service.metrics)

    def _policy_labels(self) -> Mapping[str, str]:
        """Return the patterns of the recipients by the names of the policies in force."""
        return self._runtime().rules.patterns_by_name
