"""What the listeners go by, from settings: made at the start and anew at each reload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.assembly.headers import make_header_policy, make_message_reader
from nbstream.assembly.listeners import LISTENERS
from nbstream.assembly.policy import make_filter_policy, make_rules
from nbstream.assembly.tls import make_tls_contexts
from nbstream.listeners.runtime import FeedbackAddresses, Runtime

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.filter import Filter


def make_runtime(settings: Settings, spam_filter: Filter) -> Runtime:
    """Return the runtime of these settings; ``spam_filter`` gives its parts, whatever policy it has.

    Whatever may fail in settings that were read without an error fails here.
    """
    return Runtime(
        spam_filter=spam_filter.with_policy(make_filter_policy(settings)),
        rules=make_rules(settings),
        teachers={entry.name: entry.teachers(settings) for entry in LISTENERS},
        feedback_addresses=FeedbackAddresses(settings.feedback.spam_address, settings.feedback.ham_address),
        message_reader=make_message_reader(settings),
        header_policy=make_header_policy(settings),
        tls_contexts=make_tls_contexts(settings),
        passes_on_failure=settings.on_filter_failure == "pass",
    )
