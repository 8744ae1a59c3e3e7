"""Work that goes on for as long as the process: what fails is logged, counted, shown, and tried again.

Rules: mail never ends because such work has failed. Of failures in a row the first is logged, and that the work
does well again. Only what waiting cannot mend ends the process: a configuration or a stored model that cannot be
used, where work that is to run all the time finds it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NoReturn

from nbstream.errors import ConfigError, NbstreamError, StoreIncompatible
from nbstream.store.backoff import REDIS_WAITS, RESTART_WAITS, Backoff
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


_log = logging.getLogger(__name__)

_SHOWN_SECONDS = 2 * RESTART_WAITS[-1]  # what runs for that long after a failure is well again


class BackgroundTasks:
    """The background work of one process.

    ``count_failures`` gets the name of each work with 0 when it starts, and with 1 each time it fails: what was
    never counted is not exported.
    """

    def __init__(self, count_failures: Callable[[str, int], object]) -> None:
        self._count_failures = count_failures
        self._tasks: list[asyncio.Task[None]] = []
        self._failed_at: dict[str, float] = {}
        self._fatal: BaseException | None = None
        self._is_over = asyncio.Event()

    @property
    def failing(self) -> Sequence[str]:
        """The names of the work that failed a moment ago, and has not done well since."""
        since = time.monotonic() - _SHOWN_SECONDS
        return [name for name, failed_at in self._failed_at.items() if failed_at > since]

    def every(
        self, name: str, seconds: float, step: Callable[[], Awaitable[object]], *, waits_first: bool = False
    ) -> None:
        """Repeat ``step``, with a pause of ``seconds`` after each one; ``waits_first`` makes one before the first.

        A step that fails is tried again: first after half a second, then after longer and longer, up to
        ``seconds``, which count as two at least, or to a minute.
        """
        longest = max(seconds, REDIS_WAITS[-1])
        backoff = Backoff([wait for wait in RESTART_WAITS if wait <= longest])

        async def repeat() -> None:
            await asyncio.sleep(seconds if waits_first else 0)
            while True:
                pause = seconds
                try:
                    await step()
                except Exception as error:  # noqa: BLE001 - the rule of this module
                    self._note_failure(name, error)
                    pause = backoff.next_wait()
                else:
                    self._note_success(name)
                    backoff.reset()
                await asyncio.sleep(pause)

        self.start(name, repeat)

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run ``run`` until it returns, however often it fails."""
        self._count_failures(name, 0)
        running = [task for task in self._tasks if not task.done()]
        self._tasks = [*running, asyncio.create_task(self._keep_running(name, run), name=name)]

    async def wait_for_end(self) -> NoReturn:
        """Wait for what must end the process, and raise it: ``ConfigError`` or ``StoreIncompatible``."""
        await self._is_over.wait()
        assert self._fatal is not None
        raise self._fatal

    async def stop(self) -> None:
        """Cancel all work, and return when it has ended."""
        for task in self._tasks:
            await cancel_and_wait(task)

    async def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(RESTART_WAITS)
        while True:
            started = time.monotonic()
            try:
                await run()
            except (ConfigError, StoreIncompatible) as error:
                self._fatal = error
                self._is_over.set()
                return
            except Exception as error:  # noqa: BLE001 - the rule of this module
                if time.monotonic() - started > _SHOWN_SECONDS:
                    self._note_success(name)
                    backoff.reset()
                self._note_failure(name, error)
            else:
                return
            await asyncio.sleep(backoff.next_wait())

    def _note_failure(self, name: str, error: Exception) -> None:
        if name not in self._failed_at:
            is_expected = isinstance(error, NbstreamError | OSError)
            _log.log(
                logging.WARNING if is_expected else logging.ERROR,
                "the background work %r failed and will be retried: %s",
                name,
                error,
                exc_info=not is_expected,
            )
        self._failed_at[name] = time.monotonic()
        self._count_failures(name, 1)

    def _note_success(self, name: str) -> None:
        if self._failed_at.pop(name, None):
            _log.info("the background work %r works again", name)
