"""The runtime of listeners in tests."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from nbstream.filter import Filter
from nbstream.policy.header import HeaderPolicy, MessageReader
from nbstream.policy.recipient_rules import RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.connections import Network, Teachers
from nbstream.server.runtime import FeedbackAddresses, Runtime

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
SPAM_ADDRESS, HAM_ADDRESS = "spam@nbstream.invalid", "ham@nbstream.invalid"
RULES = RecipientRules.build(ThresholdPolicy(), ActionsSettings())


def make_runtime(spam_filter: Filter, *, allow_from: Sequence[Network] = LOOPBACK, **changes: Any) -> Runtime:
    """A runtime in which peers of ``allow_from`` may teach through every listener with a socket."""
    teachers = dict.fromkeys(("smtp", "lmtp", "http", "spamd", "milter"), Teachers(allow_from))
    header_policy = changes.get("header_policy", HeaderPolicy("test"))
    values: dict[str, Any] = {
        "rules": RULES,
        "teachers": {**teachers, "stream": Teachers()},
        "feedback_addresses": FeedbackAddresses({"spam": SPAM_ADDRESS, "ham": HAM_ADDRESS}),
        "message_reader": MessageReader(marks=header_policy.marks),
        "header_policy": header_policy,
    }
    return Runtime(spam_filter=spam_filter, **{**values, **changes})
