"""Where mail goes from here, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.config import SmtpNextHopSetting
from nbstream.relay.maildir_next_hop import MaildirNextHop
from nbstream.relay.quarantine import Quarantine

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.relay.next_hop import NextHop


def make_next_hop(settings: Settings) -> NextHop:
    """Return where mail goes next."""
    next_hop = settings.relay.next_hop
    if isinstance(next_hop, SmtpNextHopSetting):
        # Imported here, since commands for a quarantine before a Maildir need no SMTP client.
        from nbstream.relay import smtp_connections  # noqa: PLC0415 - see above
        from nbstream.relay.smtp_next_hop import SmtpNextHop  # noqa: PLC0415 - see above

        limits = smtp_connections.NextHopLimits(
            connect_timeout_seconds=settings.relay.connect_timeout_seconds,
            reply_timeout_seconds=settings.relay.reply_timeout_seconds,
            max_connections=settings.relay.max_connections,
        )
        return SmtpNextHop(next_hop.address.host, next_hop.address.port, limits)
    assert settings.maildir_folder is not None
    return MaildirNextHop(settings.maildir_folder)


def make_quarantine(settings: Settings) -> Quarantine:
    """Return the quarantine."""
    return Quarantine(settings.quarantine_folder)
