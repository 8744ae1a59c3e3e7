"""Where the doors listen, and the sockets of one process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nbstream.assembly.listeners import place
from nbstream.errors import CannotStart
from nbstream.listeners.sockets import Place, TcpPlace, UnixPlace, listening, resolved, told

if TYPE_CHECKING:
    from nbstream.config import Settings

Sockets: TypeAlias = Mapping[str, list[socket.socket]]
"""By the names of doors under ``listeners``; only that for mail may have several."""

Names: TypeAlias = Mapping[Path, int]
"""The inodes of unix sockets, by their paths."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the daemon listens, by door."""

    smtp: tuple[str, int] | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    """Of all others: ``HOST:PORT`` or ``unix:PATH``."""

    def told(self) -> dict[str, str]:
        """All of them as text, for the log."""
        smtp = {"smtp": str(TcpPlace(*self.smtp))} if self.smtp else {}
        return {**smtp, **self.others}


def places(settings: Settings) -> dict[str, Place]:
    """Where each open door listens, as the settings say."""
    listeners = settings.listeners
    found: dict[str, Place] = {}
    if listeners.smtp:
        found["smtp"] = TcpPlace(listeners.smtp.listen.host, listeners.smtp.listen.port)
    if listeners.http:
        found["http"] = place(listeners.http)
    if listeners.spamd:
        found["spamd"] = place(listeners.spamd)
    if listeners.metrics:
        found["metrics"] = TcpPlace(listeners.metrics.listen.host, listeners.metrics.listen.port)
    return found


def opened(places: Mapping[str, Place], make: Callable[[Place], socket.socket] = listening) -> Sockets:
    """A socket for each place, and for the door of mail one for each address that its host has.

    Raises ``CannotStart``; then none is left open.
    """
    found: dict[str, list[socket.socket]] = {}
    try:
        for name, where in places.items():
            with _named(name, where):
                single = resolved(where) if name == "smtp" and isinstance(where, TcpPlace) else [where]
                sockets = found.setdefault(name, [])
                for each in single:
                    sockets.append(make(each))
    except BaseException:
        close(found)
        raise
    return found


def close(sockets: Sockets) -> None:
    """Close them all."""
    for each in sockets.values():
        for one in each:
            one.close()


def names(places: Mapping[str, Place]) -> Names:
    """The names that the sockets made for ``places`` have in the file system; a closed one keeps its own."""
    paths = [where.path for where in places.values() if isinstance(where, UnixPlace)]
    return {path: path.stat().st_ino for path in paths}


def remove(names: Names) -> None:
    """Remove those that are still ours: another program may have put a socket of its own there."""
    for path, inode in names.items():
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


def addresses(places: Mapping[str, Place], sockets: Sockets) -> Addresses:
    """Where these sockets, made for ``places``, listen: with the ports that the system chose."""
    smtp = sockets["smtp"][0].getsockname()[:2] if "smtp" in sockets else None
    others = {name: told(places[name], found[0]) for name, found in sockets.items() if name != "smtp"}
    return Addresses(smtp, others)


@contextmanager
def _named(name: str, where: Place) -> Iterator[None]:
    """Say which door could not be opened."""
    try:
        yield
    except OSError as error:
        text = f"listeners.{name}.listen: cannot listen on {where}: {error.strerror}"
        raise CannotStart(text) from error
