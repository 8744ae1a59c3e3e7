"""The settings of the listener for Dovecot's scripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Strict

from nbstream.addresses import UnixAddress
from nbstream.settings.values import ByteCount, Section, UnixAddressSetting

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

    spool_max_bytes: ByteCount = 1 << 30
    """The bytes of the spool on disk; a message beyond that is refused. At least ``limits.max_message_bytes``
    and 16 MiB more. What was set aside may have as many bytes again.
    """
