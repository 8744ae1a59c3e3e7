"""The digests of quarantined mail, from settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.delivery.quarantine import Quarantine
from nbstream.store.recent.message_rows import normalize_address
from nbstream.web.users.digest_mail import DigestRenderer
from nbstream.web.users.digest_state import DigestState
from nbstream.web.users.digests import DigestOutcome, Digests
from nbstream.web.users.links import LinkKeys
from nbstream.web.users.preferences import UserPreferences

if TYPE_CHECKING:
    from nbstream.daemon.assembly.parts import Parts


def make_digests(
    parts: Parts, user_of: Callable[[str], str], count: Callable[[DigestOutcome], object] = lambda _: None
) -> Digests:
    """Return the digests of the quarantine, for settings with a section ``digest``.

    ``user_of`` returns the address of the user behind an address.
    """
    settings, client, keys = parts.settings, parts.clients.client, parts.model.keys
    page, section = settings.user_page, settings.digest
    assert section is not None

    def may_log_in(address: str) -> bool:
        return page is not None and page.address_of(address, None) == address

    return Digests(
        section=section,
        waiting=Quarantine(settings.quarantine_folder),
        kept_days=settings.quarantine.days,
        state=DigestState(parts.state),
        renderer=DigestRenderer(section, settings.quarantine.days, may_log_in),
        preferences=UserPreferences(client, keys),
        link_keys=LinkKeys(client, keys),
        next_hop=parts.next_hop,
        user_of=lambda address: user_of(normalize_address(address)),
        count=count,
    )
