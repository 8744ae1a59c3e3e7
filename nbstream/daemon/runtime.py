"""What the listeners go by, with their certificates, from settings: made at the start and anew at each reload."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.assembly.policy import (
    make_filter_policy,
    make_header_policy,
    make_message_reader,
    make_own_model_names,
    make_rules,
    make_sender_lists,
)
from nbstream.daemon.listeners import LISTENERS
from nbstream.filter.own_models.filters import OwnFilters
from nbstream.listeners.smtp import LMTP, SMTP
from nbstream.server.connections import Teachers
from nbstream.server.runtime import FeedbackAddresses, Runtime
from nbstream.store.model.memory_model import MemoryModel

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from nbstream.daemon.config import Settings
    from nbstream.filter import Filter
    from nbstream.filter.own_models.store import OwnModels
    from nbstream.listeners.smtp.settings import MailListenerSettings
    from nbstream.policy.sender_lists import OwnerList

NO_STORED_LISTS: Mapping[str, OwnerList] = MappingProxyType({})


def make_runtime(
    settings: Settings,
    spam_filter: Filter,
    stored_lists: Mapping[str, OwnerList] = NO_STORED_LISTS,
    own_models: OwnModels | None = None,
) -> Runtime:
    """Return the runtime of these settings; ``spam_filter`` gives its parts, whatever policy it has.

    ``stored_lists`` are the sender lists that people change meanwhile, by owner. ``own_models`` are those in
    memory; without them everybody has the common model. Whatever may fail in settings that were read without an
    error fails here.
    """
    common, names = spam_filter.with_policy(make_filter_policy(settings)), make_own_model_names(settings)
    own_filters = None
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
    make_runtime(settings, make_filter(settings, model, model))


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
