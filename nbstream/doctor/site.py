"""What is examined: the settings, the daemon that should run by them, and the mail servers beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.status import DaemonStatus


@dataclass(frozen=True, slots=True)
class MailServerFiles:
    """Where the configurations of the mail servers are; None is where each of them looks itself.

    ``postfix`` is the folder of ``main.cf`` and ``master.cf``, ``dovecot`` the file ``dovecot.conf``.
    """

    postfix: Path | None = None
    dovecot: Path | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """The settings of the file, what the daemon on their state folder said, and the mail servers beside it.

    ``daemon_unknown`` says why it cannot be seen whether a daemon runs; it is empty where that is known.
    """

    settings: Settings
    daemon: DaemonStatus
    mail_servers: MailServerFiles = MailServerFiles()
    daemon_unknown: str = ""

    @property
    def may_have_daemon(self) -> bool:
        """Whether a daemon runs, or may run."""
        return self.daemon.pid is not None or bool(self.daemon_unknown)

    @property
    def has_redis_to_ask(self) -> bool:
        """Whether Redis may be asked: the embedded one runs only with its daemon, and is not started for this."""
        return self.daemon.pid is not None or not self.settings.redis.is_embedded

    @property
    def relays_mail(self) -> bool:
        """Whether mail goes through the daemon to its next hop: other listeners only answer."""
        return any(section is not None for section in (self.settings.listeners.smtp, self.settings.listeners.lmtp))

    @property
    def daemon_user(self) -> int | None:
        """The user id of the running daemon, else that of the owner of the state folder; None where neither is."""
        pid = self.daemon.pid
        for path in ([Path(f"/proc/{pid}")] if pid else []) + [self.settings.state_dir]:
            with suppress(OSError):
                return path.stat().st_uid
        return None

    @property
    def is_daemon_user(self) -> bool:
        """Whether this examination runs as the user of the daemon, or no such user is known."""
        return self.daemon_user in {None, os.geteuid()}
