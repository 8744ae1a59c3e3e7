"""The users of this machine: their names and numbers, and the one at the other end of a unix socket."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): process, user, group


@lru_cache(maxsize=256)
def user_name(number: int) -> str:
    """Return the name of the user, or the number itself where it has none.

    A look-up may ask another machine, and take its time.
    """
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def actor_of_system_user(number: int) -> str:
    """Return the user as an actor in the history: ``user`` and the name. No peer's address looks like this."""
    return f"user {user_name(number)}"


def as_user(number: int) -> str:
    """Return what to do where only this user may run the command of this process: a line to copy."""
    name = user_name(number)
    before = ["runuser", "-u", name, "--"] if os.geteuid() == 0 else ["sudo", "-u", name]
    program = shutil.which(sys.argv[0]) or sys.argv[0]
    return f"run this as that user: {shlex.join([*before, program, *sys.argv[1:]])}"


@contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    """Be this user for what files and sockets say, until the end; root alone can, and None changes nothing."""
    before = os.geteuid()
    if user is not None:
        os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(before)


def user_number(name: str) -> int:
    """Return the number of the user of this name or number. Raises ``LookupError`` where there is none."""
    return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid


def peer_user(descriptor: int) -> int:
    """Return the number of the user who connected this unix socket, as the kernel has noted it (SO_PEERCRED)."""
    with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)


def current_user(person: str | None = None) -> str:
    """Return the user that this process runs as, as an actor in the history, whatever the environment says.

    ``person`` is whom the user teaches for, by the user's own word.
    """
    user = actor_of_system_user(os.getuid())
    return f"{user} for {person}" if person else user
