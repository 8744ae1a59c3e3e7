"""Programs that are started again whenever they end, as a service manager does: nbstream's daemons, and Redis."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.harness.daemon import gone
from tests.harness.waiting import until
from tests.soak.chaos.journal import Journal

RESTART_SECONDS = 0.3
"""The pause before a program is started again."""

STOP_SECONDS = 40.0
"""How long a program may take to end after SIGTERM."""


class Service:
    """One program, whose ``command`` is asked for at each start.

    ``is_expected`` says of an exit code whether the program may end so.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str | Path]],
        log: Path,
        journal: Journal,
        is_expected: Callable[[int], bool],
    ) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._journal = journal
        self._is_expected = is_expected
        self._process: asyncio.subprocess.Process | None = None
        self._may_run = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._may_run.set()
        self._runner = asyncio.create_task(self._keep_running())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        pids = self.pids()
        await self.end(kill=True)
        self._runner.cancel()
        await asyncio.gather(self._runner, return_exceptions=True)
        for pid in pids:  # workers whose supervisor has gone would drain first
            send_signal(pid, signal.SIGKILL)

    @property
    def pid(self) -> int | None:
        """The id of the program's first process; None while it does not run."""
        return self._process.pid if self._process and self._process.returncode is None else None

    def pids(self) -> list[int]:
        """Return the ids of all its processes, the first process first."""
        return [self.pid, *children(self.pid)] if self.pid else []

    async def end(self, *, kill: bool = False) -> None:
        """End it, and do not start it again before ``go_on``; return once its first process has ended."""
        self._may_run.clear()
        process = self._process
        if process is None or process.returncode is not None:
            return
        send_signal(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
                return
        self._journal.add_problem(f"{self.name} did not end within {STOP_SECONDS:.0f} s after SIGTERM")
        send_signal(process.pid, signal.SIGKILL)
        await process.wait()

    def go_on(self) -> None:
        """Let it run again."""
        self._may_run.set()

    async def _keep_running(self) -> None:
        while True:
            await self._may_run.wait()
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command(), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
                )
            self._journal.note("started", service=self.name, pid=self._process.pid)
            code = await self._process.wait()
            self._journal.note("ended", service=self.name, pid=self._process.pid, code=code)
            if not self._is_expected(code):
                self._journal.add_problem(f"{self.name} exited with code {code}")
            await asyncio.sleep(RESTART_SECONDS)


class Daemon(Service):
    """``nbstream serve`` on a configuration; its exit codes are those of sysexits.h."""

    def __init__(self, name: str, config: Path, log: Path, journal: Journal) -> None:
        command = (sys.executable, "-m", "nbstream.cli", "serve", "-c", config)
        super().__init__(name, lambda: command, log, journal, self._may_end_with)
        self.config = config
        self.has_broken_file = False

    def workers(self) -> list[int]:
        """Return the ids of the processes that take mail."""
        return self.pids()[1:] or self.pids()

    async def wait_until_gone(self, pids: Sequence[int]) -> None:
        """Return once none of these processes runs: workers without their supervisor drain by themselves."""
        await until(lambda: all(map(gone, pids)), STOP_SECONDS)

    def _may_end_with(self, code: int) -> bool:
        # SIGTERM and SIGHUP end a Python that has not come to handle them yet. 75: workers of the one before still
        # drain, or hold the state folder.
        usual = {0, 75, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP}
        return code in usual or (code == 78 and self.has_broken_file)


def children(pid: int) -> list[int]:
    """Return the ids of the processes that this one has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has ended
        return []


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def stop_for(pids: Sequence[int], seconds: float) -> None:
    """Stop processes, and let them go on after so many seconds."""
    for pid in pids:
        send_signal(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        for pid in pids:
            send_signal(pid, signal.SIGCONT)
