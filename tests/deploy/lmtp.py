"""A Dovecot that does nothing but take mail over LMTP, on the socket of ``deploy/lmtp/dovecot.conf``.

Its users are ann@example.org and bob@example.org. What comes for full@example.org is beyond its quota.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.harness.daemon import DEADLINE_SECONDS, wait_until
from tests.harness.dovecot import MAIL_USER
from tests.harness.postfix import DEPLOY

PIECES = DEPLOY / "lmtp"

MAIN = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols =
ssl = no
first_valid_uid = {user}
mail_location = maildir:{folder}/mail/%n
mail_plugins = quota
plugin {{
  quota = maildir:quota
  quota_rule = *:storage=100M
}}
passdb {{
  driver = passwd-file
  args = {folder}/users
}}
userdb {{
  driver = passwd-file
  args = {folder}/users
}}
!include {folder}/lmtp.conf
"""

USERS = """\
ann@example.org:{{PLAIN}}x:{user}:{user}::{folder}/mail/ann
bob@example.org:{{PLAIN}}x:{user}:{user}::{folder}/mail/bob
full@example.org:{{PLAIN}}x:{user}:{user}::{folder}/mail/full::userdb_quota_rule=*:bytes=1
"""


class LmtpDovecot:
    """The configuration in ``folder`` and, within ``running``, the processes; ``program`` finds Dovecot's own."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        for name in ("dovecot", "/usr/lib/dovecot/lmtp"):  # each is of another package
            program(name)
        self.folder = folder
        self.socket = folder / "run" / "nbstream-lmtp"
        self._program = program
        (folder / "mail").mkdir(parents=True)
        (folder / "users").write_text(USERS.format(folder=folder, user=MAIL_USER))
        (folder / "lmtp.conf").write_text(
            (PIECES / "dovecot.conf").read_text().replace("user = nbstream", "user = root")
        )
        self._config = folder / "dovecot.conf"
        self._config.write_text(MAIN.format(folder=folder, user=MAIL_USER))

    def delivered(self, user: str, marker: bytes) -> list[bytes]:
        """The messages of the user that contain the marker."""
        messages = [path.read_bytes() for path in self.folder.glob(f"mail/{user}/new/*")]
        return [message for message in messages if marker in message]

    @property
    def log(self) -> str:
        """All that Dovecot has logged."""
        return (self.folder / "log").read_text()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start, wait for the socket, and stop at the end."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Start, and wait for the socket."""
        os.chown(self.folder / "mail", MAIL_USER, MAIL_USER)
        # In a session of its own, to know its remaining processes from those of others.
        words = [self._program("dovecot"), "-F", "-c", str(self._config)]
        self._process = subprocess.Popen(words, start_new_session=True)
        wait_until(self._listens)

    def stop(self) -> None:
        """End all processes."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(DEADLINE_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE_SECONDS)
        # A delivery that is under way when Postfix looks at its queue is tried again five minutes later.
        wait_until(self._refuses)

    def _refuses(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) != 0

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket))
            return client.recv(3) == b"220"
        return False
