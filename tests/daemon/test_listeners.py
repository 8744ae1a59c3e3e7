"""The table of listeners has each protocol once, and the settings decide which are on."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

import pytest

from nbstream.daemon import listeners as runtimes
from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.config import Settings
from nbstream.daemon.config.settings import ListenersSettings
from nbstream.daemon.listeners import LISTENERS, make_listener
from nbstream.errors import ConfigError
from nbstream.filter import Filter
from nbstream.policy.own_models.names import OwnModelNames
from nbstream.server.connections import Peer
from nbstream.server.limits import LimitsSettings
from nbstream.store.model.memory_model import MemoryModel
from tests.harness.runtimes import make_runtime

ENTRIES = {entry.name: entry for entry in LISTENERS}


def settings_with(**sections: object) -> Settings:
    """Settings with these listeners and no others."""
    off = dict.fromkeys(ListenersSettings.model_fields)
    return Settings.model_validate({"listeners": {**off, **sections}})


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_on_where_its_own_section_is(name: str) -> None:
    settings = settings_with(**{name: {"listen": "127.0.0.1:25"} if name == "metrics" else {}})

    assert [entry.name for entry in LISTENERS if entry.is_on(settings.listeners)] == [name]


def test_a_trusted_user_that_does_not_exist_is_named() -> None:
    settings = settings_with(dovecot={"trusted_users": ["nobody-of-this-name"]})
    parts = Mock()

    with pytest.raises(ConfigError, match="there is no user nobody-of-this-name"):
        make_listener(ENTRIES["dovecot"], settings, parts, make_runtime(cast(Filter, None)), lambda: False)


def test_who_may_teach_is_the_same_for_all_listeners_with_messages_and_a_socket() -> None:
    settings = Settings.model_validate({"feedback": {"allow_from": ["192.0.2.0/24"]}})
    peers = [Peer("192.0.2.1"), Peer("127.0.0.1"), Peer()]
    model = MemoryModel()
    runtime = runtimes.make_runtime(settings, OwnModelNames(), make_filter(settings, model, model))

    believed = {name: [runtime.teachers_through(name).may_teach(peer) for peer in peers] for name in ENTRIES}

    assert [believed[name] for name in ("smtp", "http", "spamd", "milter")] == [[True, False, True]] * 4
    assert believed["stream"] == [False, False, True]


def test_the_limits_of_all_listeners_are_said_once() -> None:
    made = {
        name: entry.limits(LimitsSettings(max_message_bytes=1000, max_connections=30))
        for name, entry in ENTRIES.items()
    }

    assert {limit.max_message_bytes for limit in made.values()} == {1000}
    assert {name: limit.max_connections for name, limit in made.items() if limit.max_connections != 30} == {
        "milter": 500
    }
