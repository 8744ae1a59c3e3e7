"""The listener for Dovecot's Sieve scripts: what people move to Junk, and out of it, is learned from a spool.

Here is its entry in the table.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nbstream.errors import ConfigError
from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.system_users import user_number

if TYPE_CHECKING:
    from nbstream.listeners.dovecot.settings import DovecotListenerSettings


def _make(section: DovecotListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.dovecot.listener import DovecotListener  # noqa: PLC0415 - see nbstream.server.listener
    from nbstream.listeners.dovecot.metrics import SpoolMetrics  # noqa: PLC0415 - as above
    from nbstream.listeners.dovecot.spool import Spool  # noqa: PLC0415 - as above

    trusted_users = frozenset((0, os.getuid(), *map(_user_number, section.trusted_users)))
    spool = Spool(context.state, section.spool_max_bytes)
    metrics = SpoolMetrics(context.registry)
    return DovecotListener(context.message_service, trusted_users, spool, metrics, context.background)


def _user_number(name: str) -> int:
    try:
        return user_number(name)
    except LookupError as error:
        raise ConfigError(f"listeners.dovecot.trusted_users: there is no user {name}") from error


DOVECOT = ListenerEntry(
    "dovecot",
    _make,
    teaches_by_address=False,
    idle_timeout_seconds=30,
    message_timeout_seconds=60,  # also the time that the disk may take
)
