"""The certificates of listeners, from settings: made at the start and read again at each reload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.listeners import names

if TYPE_CHECKING:
    import ssl

    from nbstream.config import Settings
    from nbstream.config.listeners import MailListenerSettings


def make_tls_contexts(settings: Settings) -> dict[str, ssl.SSLContext]:
    """Return the context of each listener that uses TLS, by its name. Raises ``OSError`` for unusable files."""
    sections = {names.SMTP: settings.listeners.smtp, names.LMTP: settings.listeners.lmtp}
    return {name: _context(section) for name, section in sections.items() if section and section.tls != "off"}


def _context(section: MailListenerSettings) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - most daemons have no listener with TLS

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert section.tls_cert_file is not None
    context.load_cert_chain(section.tls_cert_file, section.tls_key_file, password=lambda: "")
    return context
