"""Where mail goes from here, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.delivery.maildir import MaildirNextHop
from nbstream.delivery.settings import ServerNextHopSetting

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.delivery.next_hop import NextHop
    from nbstream.delivery.settings import RelaySettings
    from nbstream.delivery.smtp_next_hop import SmtpServer


def make_next_hop(settings: Settings) -> NextHop:
    """Return where mail goes next."""
    next_hop = settings.relay.next_hop
    if isinstance(next_hop, ServerNextHopSetting):
        # Imported here, since commands for a quarantine before a Maildir need no SMTP client.
        from nbstream.delivery.smtp_next_hop import SmtpNextHop  # noqa: PLC0415 - see above

        server = _server(settings.relay, next_hop)
        return SmtpNextHop(server, settings.relay, max_connections=settings.limits.max_connections)
    assert settings.maildir_folder is not None
    return MaildirNextHop(settings.maildir_folder)


def _server(relay: RelaySettings, next_hop: ServerNextHopSetting) -> SmtpServer:
    from nbstream.delivery.smtp_next_hop import RelayLogin, RelayTls, SmtpServer  # noqa: PLC0415 - see above

    login = None
    if relay.user_file and relay.password_file:
        login = RelayLogin(
            relay.user_file.secret.get_secret_value(), relay.password_file.secret.get_secret_value()
        )
    is_lmtp = next_hop.protocol == "lmtp"
    if not isinstance(next_hop.address, TcpAddress):
        return SmtpServer(socket_path=str(next_hop.address.path), lmtp=is_lmtp, login=login)
    host, port = next_hop.address.host, next_hop.address.port
    tls = None
    if relay.tls != "off":
        tls = RelayTls(
            relay.tls,
            host,
            str(relay.tls_ca_file) if relay.tls_ca_file else None,
            implicit=next_hop.protocol == "smtps",
        )
    return SmtpServer(host, port, lmtp=is_lmtp, tls=tls, login=login)
