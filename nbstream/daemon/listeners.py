"""The table of listeners: what the rest of the daemon knows about a protocol.

Sockets, start, reload, drain, the rule who may teach and the questions of ``nbstream doctor`` all go through this
table. A protocol is a package in ``listeners`` with one entry here, and its section of the settings in
``ListenersSettings``. The table does not say one thing: ``nbstream serve`` names the SMTP listener in its
hints for a newcomer.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.assembly.policy import (
    make_filter_policy,
    make_header_policy,
    make_message_reader,
    make_own_model_names,
    make_rules,
    make_sender_lists,
)
from nbstream.daemon.server_parts import HttpContext
from nbstream.filter.own_models.filters import OwnFilters
from nbstream.listeners.dovecot import DOVECOT
from nbstream.listeners.http import probe_http, probe_metrics
from nbstream.listeners.milter import MILTER
from nbstream.listeners.smtp import LMTP, SMTP
from nbstream.listeners.spamd import SPAMD
from nbstream.listeners.stream import STREAM
from nbstream.server.connections import Teachers
from nbstream.server.limits import BytesInFlight
from nbstream.server.listener import ListenerEntry
from nbstream.server.message_service import MessageService
from nbstream.server.runtime import FeedbackAddresses, Runtime
from nbstream.store.model.memory_model import MemoryModel

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from nbstream.daemon.config import Settings
    from nbstream.daemon.server_parts import ServerParts
    from nbstream.filter import Filter
    from nbstream.filter.own_models.store import OwnModels
    from nbstream.listeners.http import HttpListenerSettings, MetricsListenerSettings
    from nbstream.listeners.smtp.settings import MailListenerSettings
    from nbstream.policy.own_models.names import OwnModelNames
    from nbstream.policy.sender_lists import OwnerList
    from nbstream.server.listener import Listener


def _make_http(section: HttpListenerSettings, context: HttpContext) -> Listener:
    from nbstream.daemon.http import make_http_listener  # noqa: PLC0415 - loaded where there is one

    return make_http_listener(section, context)


def _make_metrics(_: MetricsListenerSettings, context: HttpContext) -> Listener:
    from nbstream.daemon.http import make_metrics_listener  # noqa: PLC0415 - loaded where there is one

    return make_metrics_listener(context)


HTTP = ListenerEntry(
    "http", _make_http, probe_http, idle_timeout_seconds=60, message_timeout_seconds=60, drains_last=True
)
METRICS = ListenerEntry(
    "metrics",
    _make_metrics,
    probe_metrics,
    idle_timeout_seconds=60,
    shares_socket=True,
    drains_last=True,
    counts_connections=False,
    teaches_by_address=False,
)

LISTENERS: tuple[ListenerEntry[Any, Any], ...] = (SMTP, LMTP, HTTP, SPAMD, MILTER, STREAM, DOVECOT, METRICS)
"""All listeners, in the order in which they are opened."""


def make_listener(
    entry: ListenerEntry[Any, Any],
    settings: Settings,
    parts: ServerParts,
    runtime: Runtime,
    is_draining: Callable[[], bool],
) -> Listener:
    """Return the listener, which is on; it is not started yet.

    ``is_draining`` tells whether the process takes no more mail.
    """
    context = HttpContext(
        message_service=MessageService(
            entry.name,
            runtime,
            parts.metrics.delivery,
            entry.limits(settings.limits),
            BytesInFlight(settings.limits.max_bytes_in_flight),
        ),
        registry=parts.metrics.registry,
        next_hop=parts.next_hop,
        quarantine=parts.quarantine,
        background=parts.background,
        client=parts.clients.client,
        blocking_client=parts.clients.blocking_client,
        redis_timeout_seconds=settings.redis.timeout_seconds,
        keys=parts.model.keys,
        state=parts.state,
        hostname=settings.hostname,
        settings=settings,
        parts=parts,
        is_draining=is_draining,
    )
    return entry.make(entry.section(settings.listeners), context)


# What the listeners go by, with their certificates: made at the start and anew at each reload.

NO_STORED_LISTS: Mapping[str, OwnerList] = MappingProxyType({})


def make_runtime(
    settings: Settings,
    names: OwnModelNames,
    spam_filter: Filter,
    stored_lists: Mapping[str, OwnerList] = NO_STORED_LISTS,
    own_models: OwnModels | None = None,
) -> Runtime:
    """Return the runtime of these settings and the ``names`` that they make.

    ``spam_filter`` gives its parts, whatever policy it has.
    ``stored_lists`` are the sender lists that people change meanwhile, by owner. ``own_models`` are those in
    memory; without them everybody has the common model. Whatever may fail in settings that were read without an
    error fails here.
    """
    common, own_filters = spam_filter.with_policy(make_filter_policy(settings)), None
    if own_models is not None and settings.models:
        own_filters = OwnFilters(common, names, own_models)
    return Runtime(
        spam_filter=common,
        rules=make_rules(settings),
        teachers=_teachers(settings),
        feedback_addresses=FeedbackAddresses(settings.feedback.addresses),
        message_reader=make_message_reader(settings),
        header_policy=make_header_policy(settings),
        tls_contexts=make_tls_contexts(settings),
        passes_on_failure=settings.on_filter_failure == "pass",
        sender_lists=make_sender_lists(settings, stored_lists, names.user_of),
        own_filters=own_filters,
    )


def check_settings(settings: Settings) -> None:
    """Raise what fails where a process makes its runtime of these settings."""
    model = MemoryModel()
    make_runtime(settings, make_own_model_names(settings), make_filter(settings, model, model))


def _teachers(settings: Settings) -> dict[str, Teachers]:
    """Return who may teach through each listener."""
    by_address = Teachers(settings.feedback.allow_from, settings.feedback.check_forwarded)
    return {entry.name: by_address if entry.teaches_by_address else Teachers() for entry in LISTENERS}


def make_tls_contexts(settings: Settings) -> dict[str, ssl.SSLContext]:
    """Return the context of each listener that uses TLS, by its name. Raises ``OSError`` for unusable files."""
    sections = {entry.name: entry.section(settings.listeners) for entry in (SMTP, LMTP)}
    return {name: _context(section) for name, section in sections.items() if section and section.tls != "off"}


def _context(section: MailListenerSettings) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - most daemons have no listener with TLS

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert section.tls_cert_file is not None
    context.load_cert_chain(section.tls_cert_file, section.tls_key_file, password=lambda: "")
    return context
