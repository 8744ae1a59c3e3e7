"""The keys of canaries: messages that ``nbstream doctor`` is about to send, and that are nobody's mail.

Rules: a key is announced by a file in a folder that only the daemon's user can write. So nobody else can make a
message into a canary, and no host needs a secret for it. A key is random, since the content of its message is. It
is good for one message, in whichever process that is checked, and for some minutes.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "canaries"
"""The name of the folder in ``state_dir``."""

_LIFE_SECONDS = 300.0


class Canaries:
    """The announced keys in ``folder``, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prefix = f"{folder}/"  # a Path for each message takes longer than the system call

    def announce(self, message_key: str) -> None:
        """Say that the message with this key is a canary. Raises ``OSError``."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(self._folder / message_key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def waits(self, message_key: str) -> bool:
        """Return whether no message with the key was checked yet."""
        return (self._folder / message_key).exists()

    def withdraw(self, message_key: str) -> bool:
        """Say no longer that it is one; return whether no message with the key was checked meanwhile."""
        try:
            (self._folder / message_key).unlink()
        except OSError:
            return False
        return True

    def redeem(self, message_key: str) -> bool:
        """Return whether the message with this key is a canary: True once at most for each announced key.

        It is one system call for a message that is none. Raises nothing.
        """
        path = self._prefix + message_key
        if not os.access(path, os.F_OK):
            return False
        try:
            announced_at = os.stat(path).st_mtime  # noqa: PTH116 - see above
            os.unlink(path)  # noqa: PTH108 - see above; of two processes one can do it
        except OSError:
            return False
        return time.time() - announced_at < _LIFE_SECONDS

    def remove_old(self) -> None:
        """Remove what was announced and never checked."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                if time.time() - path.stat().st_mtime >= _LIFE_SECONDS:
                    path.unlink()
