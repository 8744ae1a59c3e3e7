"""What a check gets, the site, and how checks run: at once, each with a deadline; one that fails is a finding."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nbstream.errors import NbstreamError
from nbstream.findings import Finding, note, problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from nbstream.daemon.config import Settings
    from nbstream.daemon.status import DaemonStatus

Result = TypeVar("Result")

LATE = problem(
    "doctor.{check}",
    "The check {check} did not finish within {seconds:g} s.",
    "Check whether something hangs, such as a network file system, and run nbstream doctor again.",
)
FAILED = problem(
    "doctor.{check}",
    "The check {check} could not be completed: {error}.",
    "Fix the cause, unless it is an error in nbstream itself.",
)
FORBIDDEN = note(
    "doctor.{check}",
    "This user may not read everything that the check {check} needs: {error}.",
    "Run it as the daemon's user.",
)


@dataclass(frozen=True, slots=True)
class Site:
    """The settings of the file, and what the daemon on their state folder said.

    ``daemon_unknown`` says why it cannot be seen whether a daemon runs; it is empty where that is known.
    """

    settings: Settings
    daemon: DaemonStatus
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


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """A check of one subject: its name, what makes it, and its deadline."""

    name: str
    examine: Callable[[Site], Awaitable[Sequence[Finding]]]
    seconds: float = 20.0

    @classmethod
    def blocking(cls, name: str, examine: Callable[[Site], Iterable[Finding]]) -> SiteCheck:
        """Return a check that is made in a thread, since it reads files."""
        return cls(name, lambda site: in_thread(lambda: list(examine(site))))


async def run_checks(site: Site, checks: Sequence[SiteCheck]) -> tuple[Finding, ...]:
    """Run all checks at once; return their findings in the order of the checks. Raises nothing of its own."""
    found = await asyncio.gather(*(_run_check(site, check) for check in checks))
    return tuple(finding for findings in found for finding in findings)


async def _run_check(site: Site, check: SiteCheck) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(check.seconds) as deadline:
            return await check.examine(site)
    except TimeoutError as error:
        if deadline.expired():
            return [LATE(check=check.name, seconds=check.seconds)]
        return [failure(check.name, error)]
    except Exception as error:  # noqa: BLE001 - whatever fails is a finding, and the other checks are made
        return [failure(check.name, error)]


def failure(check: str, error: Exception) -> Finding:
    """Return the finding that a check, or a part of it, could not be made."""
    text = str(error) if isinstance(error, NbstreamError | OSError) else f"{type(error).__name__}: {error}"
    kind = FORBIDDEN if isinstance(error.__cause__ or error, PermissionError) else FAILED
    return kind(check=check, error=text.rstrip("."))


async def in_thread(function: Callable[[], Result]) -> Result:
    """Return what ``function`` returns, which may block; raises what it raises.

    The thread is a daemon thread: one that hangs keeps neither the deadline of its check nor the end of the
    process waiting.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # so that nobody can cancel it before it is settled

    def run() -> None:
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="doctor").start()
    return await asyncio.wrap_future(future)
