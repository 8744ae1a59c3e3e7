"""The page from settings: its views, and who may log in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.listeners.http.bodies import BodyReader, HttpLimits
from nbstream.listeners.http.page.forms import MAX_FORM_BYTES
from nbstream.listeners.http.page.login import PageLogin, PagePasswords
from nbstream.listeners.http.page.rendering import PageRenderer
from nbstream.listeners.http.page.server import PageServer
from nbstream.listeners.http.page.sessions import PageSessions
from nbstream.listeners.http.page.static_files import load_static_files
from nbstream.store.page_sessions import PageSessionStore

if TYPE_CHECKING:
    from nbstream.assembly.parts import ServerParts
    from nbstream.config import HttpListenerSettings, Settings
    from nbstream.listeners.bytes_in_flight import BytesInFlight
    from nbstream.listeners.http.page.routes import View


def make_page(
    section: HttpListenerSettings, settings: Settings, parts: ServerParts, bytes_in_flight: BytesInFlight
) -> PageServer:
    """Return the page with all its views."""
    views: list[View] = []
    store = PageSessionStore(parts.clients.client, parts.model.keys)
    passwords = PagePasswords(
        section.password.get_secret_value() if section.password else None,
        section.write_password.get_secret_value() if section.write_password else None,
    )
    limits = HttpLimits(MAX_FORM_BYTES, request_timeout_seconds=section.request_timeout_seconds)
    static_files = load_static_files()
    return PageServer(
        views,
        PageLogin(store, passwords),
        PageSessions(store),
        BodyReader(limits, bytes_in_flight, "a form"),
        static_files,
        PageRenderer(static_files.version),
    )
