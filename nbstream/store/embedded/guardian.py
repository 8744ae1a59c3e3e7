"""The guardian: a process that runs the embedded Redis as long as somebody uses it, and no longer.

It is started by its path in a process of its own, therefore it imports the standard library alone; its output goes
to the server's log: ``python -I -S guardian.py USERS_LOCK SERVER_LOCK FOLDER SERVER [OPTION...]``.

Rules. A user of the server holds a shared lock on USERS_LOCK. The guardian starts the server and waits for the
exclusive lock. When it gets that lock, nobody uses the server any more; it stops the server, and releases the lock
only by its own exit. The server process itself holds SERVER_LOCK, which it inherits from the guardian: however
guardian or server end, a second server on the same files or the same socket waits until the first one has ended.
When the guardian is killed, the kernel stops the server too. The guardian ignores SIGINT, which is for the daemon;
SIGTERM stops the server at once.
"""

from __future__ import annotations

import _thread
import ctypes
import fcntl
import os
import signal
import sys
import time

PREDECESSOR_SECONDS = 20.0  # for the server of a killed guardian to end; the starter of this process waits longer
STOP_SECONDS = 10.0  # from SIGTERM to SIGKILL; every acknowledged write is on disk before its answer
_PR_SET_PDEATHSIG = 1  # prctl(2)
_UNUSED_SIGNAL = signal.SIGUSR1  # this process sends it to itself when it has the exclusive lock
_AWAITED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, _UNUSED_SIGNAL)


def hold_server_lock(path: str) -> int:
    """Lock SERVER_LOCK and return its descriptor; exit if a former server does not end and keeps the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + PREDECESSOR_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(descriptor, 32, 0).decode().strip()
                sys.exit(f"guardian: process {holder} still has the files of this Redis open and does not end")
        else:
            return descriptor
        if signal.sigtimedwait((signal.SIGTERM,), 0.05):
            sys.exit(0)


def start_server(command: list[str], lock: int) -> int:
    """Start the server and return its process id; the process has the lock from before its exec until its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    guardian = os.getpid()
    child = os.fork()
    if child:
        os.close(lock)
        return child
    try:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != guardian:  # it was killed before prctl, so the kernel will not signal its death
            os._exit(1)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        os.set_inheritable(lock, True)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execv(command[0], command)  # noqa: S606 - no shell: the arguments are fixed by the starter
    except OSError as error:
        os.write(2, f"guardian: cannot run {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def has_ended(server: int) -> bool:
    """Return whether the server process has ended; not to be called again after it returned True."""
    return os.waitpid(server, os.WNOHANG)[0] == server


def stop_server(server: int) -> None:
    """Stop the server with SIGTERM, after ``STOP_SECONDS`` with SIGKILL; return when it has ended."""
    os.kill(server, signal.SIGTERM)
    while not has_ended(server):
        if signal.sigtimedwait((signal.SIGCHLD,), STOP_SECONDS) is None:
            os.kill(server, signal.SIGKILL)


def signal_when_unused(users: int) -> None:
    """Signal this process when nobody holds USERS_LOCK; runs in a thread, because flock(2) has no deadline."""
    fcntl.flock(users, fcntl.LOCK_EX)
    os.kill(os.getpid(), _UNUSED_SIGNAL)


def guard(server: int, users: int) -> int:
    """Wait until the server has ended; return 0 if it was stopped, 1 if it ended by itself."""
    _thread.start_new_thread(signal_when_unused, (users,))
    while True:
        if signal.sigwait(_AWAITED_SIGNALS) != signal.SIGCHLD:
            stop_server(server)
            return 0
        if has_ended(server):
            return 1


def main(users_path: str, server_lock: str, folder: str, *command: str) -> int:
    """Start and guard the server; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED_SIGNALS)
    inherited = os.listdir("/proc/self/fd")  # noqa: PTH208 - pathlib would be half of this process's imports
    os.closerange(3, 1 + max(map(int, inherited)))  # locks and pipes of the starter must not stay open here
    os.chdir(folder)
    os.umask(0o077)
    users = os.open(users_path, os.O_RDWR | os.O_CREAT, 0o600)
    return guard(start_server(list(command), hold_server_lock(server_lock)), users)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
