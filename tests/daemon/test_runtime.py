"""What a reload hands to the listeners is made of the settings as a whole."""

from __future__ import annotations

import pytest

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.config import Settings
from nbstream.daemon.listeners import make_runtime
from nbstream.policy.own_models.names import OwnModelNames
from nbstream.server.connections import Peer
from nbstream.store.model.memory_model import MemoryModel

VALUES = {
    "verdict": {"unsure": 0.2, "spam": 0.7},
    "recipients": [{"match": "*@strict.example", "verdict": {"spam": 0.5}}],
    "feedback": {"allow_from": ["192.0.2.0/24"], "spam_address": "junk@example.org"},
    "headers": {"clues": False},
    "on_filter_failure": "defer",
}


def test_the_runtime_has_what_the_settings_say() -> None:
    model = MemoryModel()
    old = make_filter(Settings(), model, model)

    runtime = make_runtime(Settings.model_validate(VALUES), OwnModelNames(), old)

    assert runtime.spam_filter.policy.default_policy == runtime.rules.default.policy
    assert [policy.spam for policy in runtime.spam_filter.policy.other_policies] == [0.5]
    assert runtime.rules.rule_of("ann@strict.example").policy.spam == 0.5
    assert runtime.teachers_through("spamd").may_teach(Peer("192.0.2.1"))
    assert runtime.feedback_addresses.label_of("junk@example.org") == "spam"
    assert (runtime.header_policy.headers.clues, runtime.passes_on_failure) == (False, False)


def test_the_filter_in_force_keeps_its_policy() -> None:
    model = MemoryModel()
    old = make_filter(Settings(), model, model)
    policy = old.policy

    make_runtime(Settings.model_validate(VALUES), OwnModelNames(), old)

    assert old.policy is policy


@pytest.mark.parametrize("listener", ["metrics", "none such"])
def test_through_a_listener_without_messages_nobody_teaches(listener: str) -> None:
    model = MemoryModel()

    runtime = make_runtime(Settings(), OwnModelNames(), make_filter(Settings(), model, model))

    assert not runtime.teachers_through(listener).may_teach(Peer("127.0.0.1"))
