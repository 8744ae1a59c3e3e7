"""The settings of the listeners."""

from __future__ import annotations

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.listeners.dovecot.settings import DovecotListenerSettings
from nbstream.listeners.http.settings import HttpListenerSettings, MetricsListenerSettings
from nbstream.listeners.milter.settings import MilterListenerSettings
from nbstream.listeners.smtp.settings import (
    LmtpListenerSettings,
    SmtpListenerSettings,
)
from nbstream.listeners.spamd.settings import SpamdListenerSettings
from nbstream.listeners.stream.settings import StreamListenerSettings
from nbstream.settings.values import (
    Section,
)


class ListenersSettings(Section):
    """The listeners. None stands for one that is closed."""

    smtp: SmtpListenerSettings | None = SmtpListenerSettings()
    """Mail comes in here. The mail server passes each message on to this listener and gets the answer of the next
    hop back.
    """

    http: HttpListenerSettings | None = HttpListenerSettings()
    """Checks and lessons over HTTP, by the API of nbstream (``/v1/``) and by the API of rspamd (``/checkv2``,
    ``/learnspam`` and others); metrics for Prometheus (``/metrics``) and health for a supervisor (``/healthz``,
    ``/readyz``); and a page for administrators (``/ui/``), which asks everybody to log in.
    """

    metrics: MetricsListenerSettings | None = None
    """``/metrics`` alone, without a password, for a scraper on another machine."""

    spamd: SpamdListenerSettings | None = None
    """The protocol of SpamAssassin's server, for spamc, Exim's ``spam =`` and others."""

    lmtp: LmtpListenerSettings | None = None
    """Mail comes in here by LMTP, in place of SMTP: each recipient of a message gets an answer of its own."""

    milter: MilterListenerSettings | None = None
    """The milter protocol, for Postfix (``smtpd_milters``, ``non_smtpd_milters``), Sendmail and others."""

    stream: StreamListenerSettings | None = None
    """Programs add entries to the stream ``nbstream:{MODEL}:in`` in Redis and read the answers in
    ``nbstream:{MODEL}:out``.
    """

    dovecot: DovecotListenerSettings | None = None
    """Dovecot's Sieve scripts hand over what people move to Junk, and out of it. Nobody waits until it is learned.
    """

    @property
    def warnings(self) -> list[str]:
        """One sentence for each certificate that nobody is offered."""
        return [
            f"listeners.{name}.tls is off, so that nobody is offered the certificate in tls_cert_file: with may, "
            "clients can use it"
            for name, listener in (("smtp", self.smtp), ("lmtp", self.lmtp))
            if listener and listener.tls_cert_file and listener.tls == "off"
        ]

    @property
    def listen_addresses(self) -> list[tuple[str, TcpAddress | UnixAddress]]:
        """The names of the listeners that have an address and are not closed, with their addresses."""
        listeners = ((name, getattr(self, name)) for name in type(self).model_fields)
        return [(name, listener.listen) for name, listener in listeners if hasattr(listener, "listen")]
