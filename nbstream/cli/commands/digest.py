"""``nbstream digest``: show the next digest of a user, or send digests now.

Rules: what is shown has links that do not work, so that a terminal or a ticket with it gives nothing away. Nothing
of a message reaches the terminal but printable characters.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import time
from typing import TYPE_CHECKING

from nbstream.cli.exit_codes import EX_TEMPFAIL, EX_UNAVAILABLE
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import Parts, make_digests
from nbstream.daemon.assembly.policy import make_own_model_names
from nbstream.daemon.assembly.store import open_running_redis
from nbstream.errors import ConfigError, InputError
from nbstream.store.recent.message_rows import normalize_address
from nbstream.terminal import print_error, printable
from nbstream.web.users.digests import DigestOutcome

if TYPE_CHECKING:
    from nbstream.terminal import Output
    from nbstream.web.users.settings import DigestSettings


async def run(options: argparse.Namespace, output: Output) -> int | None:
    """Print or send digests; 66 where there is none, 69 if the next hop refuses one, 75 if it or Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    section = settings.digest
    if section is None:
        raise ConfigError("digest is not configured: docs/guides/web-interface.md says how")
    if not options.send and not options.address:
        options.wrong_usage("give the ADDRESS whose digest is shown, or --send")
    user_of = make_own_model_names(settings).user_of
    address = _recipient(section, user_of(options.address)) if options.address else None
    async with open_running_redis(settings) as clients:
        parts = Parts(settings, clients)
        digests = make_digests(parts, parts.user_of)
        if not options.send:
            output.show(_text_of(await digests.preview(time.time(), address or ""), options))
            return None
        try:
            outcomes = await digests.send_now(time.time(), address)
        finally:
            await parts.next_hop.close()
            parts.state.close()
    if not outcomes:
        whom = printable(options.address or "anybody")
        nothing = f"nothing new is quarantined for {whom}, up to a minute ago, or they want no digest"
        if options.address:
            raise InputError(nothing)
        print_error(nothing)
    output.show(", ".join(f"{outcomes.get(outcome, 0)} {outcome}" for outcome in DigestOutcome))
    if outcomes.get(DigestOutcome.DEFERRED):
        return EX_TEMPFAIL
    return EX_UNAVAILABLE if outcomes.get(DigestOutcome.REFUSED) else None


def _text_of(content: bytes | None, options: argparse.Namespace) -> list[str]:
    """Return the lines of a digest, or its HTML. Raises ``InputError`` where there is nothing for one."""
    if content is None:
        raise InputError(f"nothing new is quarantined for {printable(options.address)}, up to a minute ago")
    mail = email.message_from_bytes(content, policy=email.policy.default)
    part = mail.get_body(("html" if options.html else "plain",))
    assert part is not None
    fields = [] if options.html else [f"{name}: {mail[name]}" for name in ("From", "To", "Subject")]
    return [*fields, *([""] if fields else []), *part.get_content().splitlines()]


def _recipient(section: DigestSettings, text: str) -> str:
    """Return the address, normalized. Raises ``InputError`` for one that gets no digest."""
    address = normalize_address(text)
    if not section.is_recipient(address):
        raise InputError(f"{printable(address)} gets no digest by digest.recipients and digest.exclude")
    return address
