"""Several processes that serve mail: a supervisor, which handles none itself, and workers that share listeners.

Rules: the supervisor has everything of which the workers need one: the addresses, the folder in
shared memory, and a use of the embedded Redis. Either all workers apply new settings or none does. A
worker that dies is replaced. One that says that the configuration or the stored model cannot be used, or dies
before any was ready, ends the daemon, as it would end a single process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from nbstream import logs
from nbstream.assembly.policy import make_rules
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.shared_memory import open_shared_folder
from nbstream.daemon.sockets import ListenerSockets
from nbstream.daemon.worker_slot import WorkerContext, WorkerSlot
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.logs import event_fields
from nbstream.metrics import multiprocess
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.embedded.locks import translate_os_errors
from nbstream.store.embedded.server import EmbeddedRedis

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.config import Settings
    from nbstream.daemon.sockets import ListenAddresses
    from nbstream.engine.choice import Engine

_log = logging.getLogger(__name__)

_REDIS_SECONDS = 10.0  # the start goes on after this without Redis
_CHECK_SECONDS = 10.0  # for a worker to check settings, and to apply them
_ROLE_SECONDS = 1.0  # for a worker to return its role: less than nbstream status waits
_LATE_SECONDS = 5.0  # beyond drain_seconds: then a worker that has not ended is killed


class Supervisor:
    """Serves mail by ``workers`` processes; ``run`` returns after a drain."""

    def __init__(self, settings: Settings, engine: Engine, workers: int) -> None:
        self._settings = settings
        self._settings_since = time.time()
        self._engine = engine
        self._metrics_folder = settings.state_dir.absolute() / "metrics"
        self._worker_numbers = range(1, workers + 1)
        self._slots: list[WorkerSlot] = []
        self._stop = asyncio.Event()
        self._metrics: DaemonMetrics | None = None
        self.bound_addresses: ListenAddresses = {}

    @property
    def is_loaded(self) -> bool:
        """Whether all workers have counts to score mail with."""
        return all(slot.loaded for slot in self._slots)

    @property
    def lives(self) -> bool:
        """Whether a worker serves, or all drain; each one that hangs is replaced by its slot."""
        return self._stop.is_set() or any(slot.is_serving for slot in self._slots)

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    def count_reload(self, applied: bool) -> None:
        """Count a reload whose file was applied, or refused."""
        if self._metrics:
            self._metrics.process.reloaded(applied)

    async def worker_roles(self) -> dict[int, str | None]:
        """Return the role of each worker by the id of its process, None where it does not answer."""
        slots = {slot.pid: slot for slot in self._slots if slot.pid is not None}
        roles = await asyncio.gather(*(_ask_for_text(slot, "role", _ROLE_SECONDS) for slot in slots.values()))
        return dict(zip(slots, roles, strict=True))

    async def run(self, on_ready: Callable[[], object]) -> None:
        """Serve until ``stop``, then drain; ``on_ready`` is called once all workers accept mail.

        The caller holds the lock of the state folder. Raises ``ConfigError``, ``CannotStart`` or ``WorkerFailed``.
        """
        with translate_os_errors(self._settings.state_dir):
            multiprocess.prepare_folder(
                self._metrics_folder, [multiprocess.SUPERVISOR, *map(str, self._worker_numbers)]
            )
        multiprocess.join_folder(self._metrics_folder, multiprocess.SUPERVISOR)
        metrics = self._metrics = DaemonMetrics.create(self._engine, self._metrics_folder)
        # The counts of Python cannot be shared.
        open_folder = open_shared_folder if self._engine.native_library else nullcontext
        async with self._embedded_redis():
            with open_folder() as shared_memory:
                await self._serve(metrics, shared_memory, on_ready)

    @asynccontextmanager
    async def _embedded_redis(self) -> AsyncIterator[None]:
        """Use the embedded server, so that it neither waits for the first worker nor ends with the last."""
        if not self._settings.redis.is_embedded:
            yield
            return
        embedded = EmbeddedRedis(self._settings.state_dir)
        try:
            await embedded.join()
            starting = asyncio.create_task(embedded.ensure_running())
            await self._wait_unless_stopped(starting, seconds=_REDIS_SECONDS)
            if starting.done():
                try:
                    starting.result()
                except StoreUnavailable as error:
                    _log.error("starting without Redis: %s", error)
            await cancel_and_wait(starting)
            yield
        finally:
            await embedded.release()

    async def _wait_unless_stopped(self, *tasks: asyncio.Task[Any], seconds: float | None = None) -> None:
        """Return when one of the tasks is done, at ``stop``, or after ``seconds``."""
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([stopping, *tasks], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _serve(
        self, metrics: DaemonMetrics, shared_memory: Path | None, on_ready: Callable[[], object]
    ) -> None:
        shared_sockets = ListenerSockets(self._settings, for_workers=True)
        try:
            self.bound_addresses = shared_sockets.bound_addresses
            context = WorkerContext(
                settings=lambda: self._settings,
                settings_since=lambda: self._settings_since,
                share_sockets=shared_sockets.open_for_worker,
                metrics_folder=self._metrics_folder,
                shared_memory=shared_memory,
                on_worker_death=metrics.process.worker_died,
                any_was_ready=lambda: any(slot.ready.is_set() for slot in self._slots),
            )
            self._slots = [WorkerSlot(number, context) for number in self._worker_numbers]
            tasks = [asyncio.create_task(slot.run(), name=f"worker {slot.number}") for slot in self._slots]
            try:
                await self._wait_until_stopped(tasks, on_ready)
            finally:
                _log.info("draining")
                # Otherwise a client of a unix socket that the workers have closed would wait for nobody.
                shared_sockets.close()
                await self._drain(tasks)
            # Every task is asked, since asyncio warns of an exception that nobody has looked at.
            for failure in [task.exception() for task in tasks if not task.cancelled()]:
                if failure:
                    raise failure
        finally:
            shared_sockets.close()
            shared_sockets.remove_files()

    async def _wait_until_stopped(self, tasks: list[asyncio.Task[None]], on_ready: Callable[[], object]) -> None:
        """Return at ``stop``, or when the task of a slot has ended: no worker could serve."""
        all_ready = asyncio.create_task(self._wait_until_all_ready())
        try:
            await self._wait_unless_stopped(all_ready, *tasks)
            if all_ready.done():
                on_ready()
                await self._wait_unless_stopped(*tasks)
        finally:
            await cancel_and_wait(all_ready)

    async def _wait_until_all_ready(self) -> None:
        for slot in self._slots:
            await slot.ready.wait()

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        """Let all workers drain, and kill those that do not."""
        for slot in self._slots:
            slot.stop()
        _, late = await asyncio.wait(tasks, timeout=self._settings.drain_seconds + _LATE_SECONDS)
        if late:
            _log.error(
                "draining took too long: workers are killed with what they have",
                extra=event_fields(
                    workers=", ".join(str(slot.number) for slot in self._slots if slot.pid is not None)
                ),
            )
            for slot in self._slots:
                slot.kill()
            await asyncio.wait(late, timeout=_LATE_SECONDS)
            for task in late:
                await cancel_and_wait(task)

    async def apply_settings(self, settings: Settings) -> None:
        """Let all workers apply the settings, or none.

        First each worker makes new objects of them. If that works in all workers, each one applies them. A worker
        that fails then is replaced by one that is started with the new settings.
        """
        make_rules(settings)
        problems = await self._ask_all("check", settings)
        if problems:
            raise ConfigError("\n".join(f"worker {slot.number}: {problem}" for slot, problem in problems.items()))
        self._settings, self._settings_since = settings, time.time()
        logs.set_up_logging(settings.log)
        for slot, problem in (await self._ask_all("apply", settings)).items():
            _log.error("worker %d is replaced: %s", slot.number, problem)
            slot.kill()

    async def _ask_all(self, command: str, settings: Settings) -> dict[WorkerSlot, str]:
        """Send a command to all workers at once; return the problems of those that failed."""

        async def ask(slot: WorkerSlot) -> str | None:
            try:
                answer = await slot.ask(command, settings, seconds=_CHECK_SECONDS)
            except TimeoutError:
                return f"no answer within {_CHECK_SECONDS:g} s"
            return str(answer["problem"]) if answer and "problem" in answer else None

        problems = zip(self._slots, await asyncio.gather(*map(ask, self._slots)), strict=True)
        return {slot: problem for slot, problem in problems if problem}


async def _ask_for_text(slot: WorkerSlot, command: str, seconds: float) -> str | None:
    """Return what the worker answers to a command; None where it does not answer in time, or has a problem."""
    with suppress(TimeoutError):
        answer = await slot.ask(command, seconds=seconds)
        return str(answer["result"]) if answer and "result" in answer else None
    return None
