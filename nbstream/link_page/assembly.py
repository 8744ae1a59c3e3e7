"""The pages behind links from their parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.link_page.metrics import LinkMetrics
from nbstream.link_page.server import LinkPageParts, LinkPages
from nbstream.link_page.texts import TEXTS
from nbstream.listeners.http.bodies import BodyReader
from nbstream.page.forms import MAX_FORM_BYTES
from nbstream.page.rendering import PageRenderer
from nbstream.store.recent.message_rows import QuarantineOutcomes, normalize_address
from nbstream.users.held_mail import HeldMail, HeldMailParts
from nbstream.users.links import LinkKeys
from nbstream.users.preferences import UserPreferences
from nbstream.users.teacher import DIGEST_SOURCE, UserTeacher

if TYPE_CHECKING:
    from nbstream.page.assembly import PageParts
    from nbstream.server.runtime import Runtime
    from nbstream.users.settings import DigestSettings


def make_link_pages(parts: PageParts, section: DigestSettings) -> LinkPages:
    """Return the pages; ``parts`` are those of the page of administrators."""

    def runtime() -> Runtime:
        return parts.message_service.runtime

    def user_of(address: str) -> str:
        return runtime().sender_lists.user_of(normalize_address(address))

    client, keys = parts.clients.client, parts.model.keys
    limits = replace(parts.limits, max_message_bytes=MAX_FORM_BYTES)
    outcomes = QuarantineOutcomes(client, keys)
    teacher = UserTeacher(DIGEST_SOURCE, runtime)
    return LinkPages(
        LinkPageParts(
            HeldMail(HeldMailParts(parts.quarantine, parts.next_hop, runtime, teacher, outcomes.note, user_of)),
            UserPreferences(client, keys),
            LinkKeys(client, keys),
            BodyReader(limits, parts.bytes_in_flight, "a form"),
            PageRenderer(__version__, "nbstream.link_page", texts=TEXTS),
            LinkMetrics(parts.registry),
            sorted(TEXTS, key=lambda language: language != section.language),
        )
    )
