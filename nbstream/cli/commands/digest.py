"""``nbstream digest``: see the next digest of a user, and send digests now.

Rules: what is printed has links that are good for nothing, so that a terminal or a ticket with it gives nothing
away. Nothing of a message reaches the terminal but printable characters.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import time
from typing import TYPE_CHECKING

from nbstream.cli import interrupts
from nbstream.cli.exit_codes import EX_TEMPFAIL, EX_UNAVAILABLE
from nbstream.cli.terminal import printable
from nbstream.daemon import config
from nbstream.daemon.assembly.digests import make_digests
from nbstream.daemon.assembly.parts import Parts
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.errors import ConfigError, InputError
from nbstream.store.recent.message_rows import normalize_address
from nbstream.web.users.digests import DigestOutcome

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.web.users.settings import DigestSettings


def run(options: argparse.Namespace) -> int:
    """Print or send digests; 66 where there is none, 69 if the next hop refuses one, 75 if it or Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    section = settings.digest
    if section is None:
        raise ConfigError("digest is not configured: docs/guides/web-interface.md says how")
    if options.action == "preview":
        return interrupts.run_interruptible(_preview(settings, section, options))
    return interrupts.run_interruptible(_send(settings, section, options))


async def _preview(settings: Settings, section: DigestSettings, options: argparse.Namespace) -> int:
    address = _recipient(section, make_own_model_names(settings).user_of(options.address))
    async with open_running_redis(settings) as clients:
        parts = Parts(settings, clients)
        digests = make_digests(parts, parts.user_of)
        content = await digests.preview(time.time(), address)
    if content is None:
        raise InputError(f"nothing new is held back for {printable(address)}, up to a minute ago")
    mail = email.message_from_bytes(content, policy=email.policy.default)
    part = mail.get_body(("html" if options.html else "plain",))
    assert part is not None
    if not options.html:
        for name in ("From", "To", "Subject"):
            print(printable(f"{name}: {mail[name]}"))
        print()
    for line in part.get_content().splitlines():
        print(printable(line))
    return 0


async def _send(settings: Settings, section: DigestSettings, options: argparse.Namespace) -> int:
    address = _recipient(section, make_own_model_names(settings).user_of(options.to)) if options.to else None
    async with open_running_redis(settings) as clients:
        parts = Parts(settings, clients)
        try:
            outcomes = await make_digests(parts, parts.user_of).send_now(time.time(), address)
        finally:
            await parts.next_hop.close()
            parts.state.close()
    print(", ".join(f"{outcomes.get(outcome, 0)} {outcome}" for outcome in DigestOutcome))
    if outcomes.get(DigestOutcome.DEFERRED):
        return EX_TEMPFAIL
    return EX_UNAVAILABLE if outcomes.get(DigestOutcome.REFUSED) else 0


def _recipient(section: DigestSettings, text: str) -> str:
    """Return the address, normalized. Raises ``InputError`` for one that gets no digest."""
    address = normalize_address(text)
    if not section.is_recipient(address):
        raise InputError(f"{printable(address)} gets no digest by digest.recipients and digest.exclude")
    return address
