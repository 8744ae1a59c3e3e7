"""The guardian: a process that runs the embedded Redis as long as somebody uses it, and no longer.

The first process that needs the server starts the guardian: the server itself would end with that process if it
were its child, although others have come to use it meanwhile. The guardian is started by its path and imports the
standard library alone: ``python -I -S guardian.py USERS_LOCK FOLDER SERVER [OPTION...]``. Its output goes to the
log of the server; its standard input is the locked file of the server, which the server inherits.

Rules. A user of the server holds a shared lock on USERS_LOCK. When the guardian gets the exclusive lock, nobody
uses the server any more; it stops the server, and releases the lock only by its own exit. SIGTERM stops the server
at once. When the guardian is killed, the kernel stops the server too.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
from functools import partial

STOP_SECONDS = 10  # from SIGTERM to SIGKILL; every acknowledged write is on disk before its answer
_SERVER_LOCK = 0  # the standard input
_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with(guardian: int) -> None:
    """Have the kernel stop this process, the server to be, when its parent, the guardian, ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != guardian:  # it was killed before that, and the kernel will not signal its end
        os._exit(1)


def stop_when_unused(users: int) -> None:
    """Stop the server when nobody holds USERS_LOCK; runs in a thread, because flock(2) has no deadline."""
    fcntl.flock(users, fcntl.LOCK_EX)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def main(users_path: str, folder: str, *command: str) -> int:
    """Run the server until nobody uses it; return its exit code."""
    inherited = os.listdir("/proc/self/fd")  # noqa: PTH208 - pathlib would be half of this process's imports
    os.closerange(3, 1 + max(map(int, inherited)))  # locks and pipes of the starter must not stay open here
    os.chdir(folder)
    os.umask(0o077)
    server = subprocess.Popen(  # noqa: S603 - no shell: the arguments are fixed by the starter
        command,
        preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 - no threads yet
    )

    def stop(*_: object) -> None:
        server.terminate()
        signal.alarm(STOP_SECONDS)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the daemon
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, lambda *_: server.kill())
    os.ftruncate(_SERVER_LOCK, 0)
    os.pwrite(_SERVER_LOCK, b"%d\n" % server.pid, 0)
    users = os.open(users_path, os.O_RDWR | os.O_CREAT, 0o600)
    threading.Thread(target=stop_when_unused, args=(users,), daemon=True).start()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
