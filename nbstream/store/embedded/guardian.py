"""Keeps the embedded Redis running for as long as somebody uses it, and no longer.

Run by its path in a process of its own, so it imports the standard library alone; its output is the server's log:
``python -I -S guardian.py USERS_LOCK SERVER_LOCK FOLDER SERVER [OPTION...]``.

Rules. A user of the server holds a shared lock on USERS_LOCK. The guardian starts the server and waits for the
exclusive lock: once it has that, nobody uses the server any more, so it stops the server and gives the lock
back by exiting, not before. The server process itself holds SERVER_LOCK, inherited from the guardian: however
guardian or server end, a second server on the same files, or on the same socket, waits for the first to be
gone. A guardian that is killed takes the server with it. SIGINT is for the daemon, which drains; SIGTERM stops
the server at once.
"""

from __future__ import annotations

import _thread
import ctypes
import fcntl
import os
import signal
import sys
import time

PREDECESSOR_SECONDS = 20.0  # for the server of a killed guardian to finish; less than its starter waits for us
STOP_SECONDS = 10.0  # from SIGTERM to SIGKILL; every acknowledged write is on disk before its answer
_PR_SET_PDEATHSIG = 1  # prctl(2)
_UNUSED_SIGNAL = signal.SIGUSR1  # this process to itself: the exclusive lock is ours
_AWAITED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, _UNUSED_SIGNAL)


def hold_server_lock(path: str) -> int:
    """The descriptor of SERVER_LOCK, locked; exits when a server that ought to be gone keeps it."""
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
    """The process id of the server; it holds the lock from before it exists as a server until it is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    guardian = os.getpid()
    child = os.fork()
    if child:
        os.close(lock)
        return child
    try:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != guardian:  # killed before prctl: its death can be signalled no more
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
    """True once the server process is gone; to be asked until then, not again."""
    return os.waitpid(server, os.WNOHANG)[0] == server


def stop_server(server: int) -> None:
    """Ask the server to stop, insist after ``STOP_SECONDS``, return when it is gone."""
    os.kill(server, signal.SIGTERM)
    while not has_ended(server):
        if signal.sigtimedwait((signal.SIGCHLD,), STOP_SECONDS) is None:
            os.kill(server, signal.SIGKILL)


def signal_when_unused(users: int) -> None:
    """Signal this process when nobody holds USERS_LOCK; a thread, because flock(2) knows no deadline."""
    fcntl.flock(users, fcntl.LOCK_EX)
    os.kill(os.getpid(), _UNUSED_SIGNAL)


def guard(server: int, users: int) -> int:
    """Return when the server is gone: 0 if it was stopped, 1 if it ended by itself."""
    _thread.start_new_thread(signal_when_unused, (users,))
    while True:
        if signal.sigwait(_AWAITED_SIGNALS) != signal.SIGCHLD:
            stop_server(server)
            return 0
        if has_ended(server):
            return 1


def main(users_path: str, server_lock: str, folder: str, *command: str) -> int:
    """Start and guard the server; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED_SIGNALS)
    inherited = os.listdir("/proc/self/fd")  # noqa: PTH208 - pathlib would be half of this process's imports
    os.closerange(3, 1 + max(map(int, inherited)))  # the locks and pipes of a starter's shell are not ours
    os.chdir(folder)
    os.umask(0o077)
    users = os.open(users_path, os.O_RDWR | os.O_CREAT, 0o600)
    return guard(start_server(list(command), hold_server_lock(server_lock)), users)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
