"""Runs the checks: at once, each with a deadline, and one that fails is a finding itself."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nbstream.errors import NbstreamError
from nbstream.findings import Finding, note, problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from nbstream.doctor.site import Site

Result = TypeVar("Result")

LATE = problem(
    "doctor.{check}",
    "The check {check} did not end within {seconds:g} s.",
    "See whether what it asks hangs, such as a file system of another machine, and run nbstream doctor again.",
)
FAILED = problem(
    "doctor.{check}",
    "The check {check} could not be made in full: {error}.",
    "Mend what the sentence names; if it names a fault of nbstream itself, please report it.",
)


FORBIDDEN = note(
    "doctor.{check}",
    "This user may not see all that the check {check} looks at: {error}.",
    "Run it as the user of the daemon.",
)


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one subject: its name, what makes it, and its deadline."""

    name: str
    examine: Callable[[Site], Awaitable[Sequence[Finding]]]
    seconds: float = 20.0


async def run_checks(site: Site, checks: Sequence[Check]) -> tuple[Finding, ...]:
    """Run all checks at once; return their findings in the order of the checks. Raises nothing of its own."""
    found = await asyncio.gather(*(_run_check(site, check) for check in checks))
    return tuple(finding for findings in found for finding in findings)


async def _run_check(site: Site, check: Check) -> Sequence[Finding]:
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


def run_parts(check: str, parts: Sequence[Callable[[], Iterable[Finding]]]) -> list[Finding]:
    """Return the findings of all parts of a check; a part that may not read something hides no other."""
    findings: list[Finding] = []
    for part in parts:
        try:
            findings += part()
        except (NbstreamError, OSError) as error:
            findings.append(failure(check, error))
    return findings


async def in_thread(function: Callable[[], Result]) -> Result:
    """Return what ``function`` returns, which may block; raises what it raises.

    The thread is a daemon thread: one that hangs keeps neither the deadline of its check nor the end of the
    process waiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if future.done():  # nobody waits any more
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # it is a Result where there is no error

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True, name="doctor").start()
    return await future
