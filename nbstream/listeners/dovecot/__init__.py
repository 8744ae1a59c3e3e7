"""The listener for Dovecot's Sieve scripts: what people move to Junk, and out of it, is learned from a spool.

Here are its settings and its entry in the table.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Strict

from nbstream.addresses import UnixAddress
from nbstream.errors import ConfigError
from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.settings.values import Section, UnixAddressSetting
from nbstream.system_users import user_number

_SPOOL_BYTES = 1 << 30  # the feedback of a large site in the hours for which Redis may be away
_OTHER_STATE_BYTES = 16 << 20  # of the file in which the spool is: for its other tables
_SYSTEM_USER = re.compile(r"[^\s:/,\x00-\x1f\x7f]{1,100}")


def read_system_user(value: object) -> str:
    """Read the name of a user of this machine, or its number; whether there is one is not looked up."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if not isinstance(value, str) or not _SYSTEM_USER.fullmatch(value):
        raise ValueError("must be the name or the number of a user of this machine, such as vmail")
    return value


SystemUser = Annotated[str, BeforeValidator(read_system_user)]


class DovecotListenerSettings(Section):
    """The listener for Dovecot's Sieve scripts, and the spool of what they report.

    A message is on the disk when Dovecot gets its answer, and is learned after that.
    """

    listen: UnixAddressSetting = UnixAddress(Path("/run/nbstream/nbstream-report"))
    """The unix socket: clients that may connect may teach. Its name is that of the program in the Sieve
    scripts, and ``sieve_pipe_socket_dir`` names its folder, as seen from Dovecot's ``base_dir``.
    """

    trusted_users: Annotated[tuple[SystemUser, ...], Strict(False)] = ()
    """The system users who may say whose mail they report, such as ``vmail``. Root and the user of nbstream
    always may; any other reports for itself.
    """


def _make(section: DovecotListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.dovecot.learner import SpoolMetrics  # noqa: PLC0415 - as above
    from nbstream.listeners.dovecot.listener import DovecotListener  # noqa: PLC0415 - see nbstream.server.listener
    from nbstream.listeners.dovecot.spool import Spool  # noqa: PLC0415 - as above

    trusted_users = frozenset((0, os.getuid(), *map(_user_number, section.trusted_users)))
    # There is room for one message in any case.
    room = max(_SPOOL_BYTES, context.message_service.limits.max_message_bytes + _OTHER_STATE_BYTES)
    spool = Spool(context.state, room)
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
