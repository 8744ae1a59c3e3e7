"""The daemon as several processes: a parent, which runs no mail itself, and workers that share the doors.

Rules: the parent holds what there is one of: the lock of the state folder, the signals, the control door, the
addresses, the door for metrics, and a use of the embedded Redis. Settings are read and checked by it, once, and
all workers have the same or none has them. A worker that dies is replaced; one that says that the configuration or
the stored model cannot be used, or dies before any was ready, ends the daemon, as it would alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from nbstream import logs
from nbstream.assembly import assembly
from nbstream.assembly.http import metrics_door
from nbstream.daemon import addresses, signals
from nbstream.daemon.addresses import Addresses
from nbstream.daemon.control import reloading
from nbstream.daemon.process import say_ready
from nbstream.daemon.reloader import Reloader
from nbstream.daemon.shared_sockets import Shares
from nbstream.daemon.tasks import ended
from nbstream.daemon.worker_slot import Crew, Post
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.metrics import multiprocess
from nbstream.metrics.metrics import Metrics
from nbstream.store.embedded.locks import lock_daemon, os_errors
from nbstream.store.embedded.server import EmbeddedRedis

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import Sockets
    from nbstream.listeners.http.listener import HttpListener

_log = logging.getLogger(__name__)

_REDIS_SECONDS = 10.0  # the start goes on after this without Redis
_TRY_SECONDS = 10.0  # for a worker to say that settings would do, and to take them over
_STATE_SECONDS = 2.0  # for a worker to tell its state to a scraper
_LATE_SECONDS = 5.0  # beyond drain_seconds: then a worker that has not ended is killed


class Parent:
    """The process that ``nbstream serve`` is where there are several; ``run`` returns after a drain."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self._settings = settings
        self._since = time.time()
        self._folder = settings.state_dir.absolute() / "metrics"
        self._numbers = range(1, workers + 1)
        self._reloader = Reloader(settings, self._adopt, self)
        self._posts: list[Post] = []
        self._stop = asyncio.Event()
        self._metrics: Metrics | None = None

    def stop(self) -> None:
        """Begin to drain."""
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration anew, soon; whether it was applied, log, metrics and the control door say.

        As of ``Daemon``, that works from the first moment of ``run`` to its last.
        """
        self._reloader.request()

    def reloaded(self, applied: bool) -> None:
        """The file was applied, or refused."""
        if self._metrics:
            self._metrics.reloaded(applied)

    async def run(self, on_ready: Callable[[Addresses], None] | None = None) -> None:
        """Serve until ``stop`` or SIGTERM or SIGINT, then drain; SIGHUP reloads.

        ``on_ready`` is called once all workers take mail. Raises ``ConfigError``, ``CannotStart`` or
        ``WorkerFailed``.
        """
        signals.handle(self.stop, self.reload)
        state = self._settings.state_dir
        with lock_daemon(state):
            with os_errors(state):
                multiprocess.clear(self._folder, [multiprocess.PARENT, *map(str, self._numbers)])
            multiprocess.join(self._folder, multiprocess.PARENT)
            self._metrics = Metrics(self._folder)
            async with reloading(self._reloader, state, self._pids), self._redis():
                await self._serve(self._metrics, on_ready)
                _log.info("stopped")

    def _pids(self) -> list[int]:
        return [post.pid for post in self._posts if post.pid is not None]

    @asynccontextmanager
    async def _redis(self) -> AsyncIterator[None]:
        """Use the embedded server, so that it neither waits for the first worker nor ends with the last."""
        if not self._settings.redis.embedded:
            yield
            return
        embedded = EmbeddedRedis(self._settings.state_dir)
        try:
            await embedded.join()
            starting = asyncio.create_task(embedded.ensure_running())
            await self._unless_stopped(starting, seconds=_REDIS_SECONDS)
            if starting.done():
                try:
                    starting.result()
                except StoreUnavailable as error:
                    _log.error("starting without Redis: %s", error)
            await ended(starting)
            yield
        finally:
            await embedded.release()

    async def _unless_stopped(self, *tasks: asyncio.Task[None], seconds: float | None = None) -> None:
        """Return when one of the tasks is done, at ``stop``, or after ``seconds``."""
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([stopping, *tasks], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _serve(self, metrics: Metrics, on_ready: Callable[[Addresses], None] | None) -> None:
        shares = Shares(self._settings)
        try:
            door, for_scrapers = await self._open_metrics()
            told = Addresses(shares.addresses.smtp, {**shares.addresses.others, **for_scrapers.others})
            crew = Crew(
                settings=lambda: self._settings,
                since=lambda: self._since,
                share=shares.share,
                metrics=self._folder,
                died=metrics.worker_died,
                served=lambda: any(post.ready.is_set() for post in self._posts),
            )
            self._posts = [Post(number, crew) for number in self._numbers]
            tasks = [asyncio.create_task(post.run(), name=f"worker {post.number}") for post in self._posts]
            try:
                await self._until_stopped(tasks, told, on_ready)
            finally:
                _log.info("draining")
                shares.leave()  # else who connects to a unix socket that they have closed would wait for nobody
                await self._drain(tasks)
                if door:
                    await door.drain(0)
            # Of all: asyncio would tell of one that nobody asked for.
            for failure in [task.exception() for task in tasks if not task.cancelled()]:
                if failure:
                    raise failure
        finally:
            shares.close()

    async def _open_metrics(self) -> tuple[HttpListener | None, Addresses]:
        """The door for metrics, where it is open; it is the parent's own."""
        where = {name: place for name, place in addresses.places(self._settings).items() if name == "metrics"}
        sockets: Sockets = addresses.opened(where)
        if not sockets:
            return None, Addresses()
        door = metrics_door(self._rendered)
        await door.start(*sockets["metrics"])
        return door, addresses.addresses(where, sockets)

    async def _rendered(self) -> bytes:
        """What all count, and the state of the model as the workers tell it."""
        assert self._metrics is not None
        counts = self._metrics.counts_text()

        async def state(post: Post) -> str | None:
            with suppress(TimeoutError):
                answer = await post.ask("state", seconds=_STATE_SECONDS)
                return str(answer["told"]) if answer and "told" in answer else None
            return None

        found = await asyncio.gather(*(state(post) for post in self._posts if post.at_work))
        return counts + multiprocess.of_all([each for each in found if each]).encode()

    async def _until_stopped(
        self,
        tasks: list[asyncio.Task[None]],
        told: Addresses,
        on_ready: Callable[[Addresses], None] | None,
    ) -> None:
        """Return at ``stop``, or when a worker has said that it is of no use to go on."""
        begun = asyncio.create_task(self._all_ready())
        try:
            await self._unless_stopped(begun, *tasks)
            if not begun.done():
                return
            say_ready(told, loaded=all(post.loaded for post in self._posts))
            if on_ready:
                on_ready(told)
            await self._unless_stopped(*tasks)
        finally:
            await ended(begun)

    async def _all_ready(self) -> None:
        for post in self._posts:
            await post.ready.wait()

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        """Have all workers drain, and end those that do not."""
        for post in self._posts:
            post.stop()
        _, late = await asyncio.wait(tasks, timeout=self._settings.drain_seconds + _LATE_SECONDS)
        if late:
            fields = {"workers": ", ".join(str(post.number) for post in self._posts if post.pid is not None)}
            _log.error("draining took too long: workers are killed with what they have", extra={"fields": fields})
            for post in self._posts:
                post.kill()
            await asyncio.wait(late, timeout=_LATE_SECONDS)
            for task in late:
                await ended(task)

    async def _adopt(self, settings: Settings) -> None:
        """Have all workers take over the settings, or none.

        First each builds what it would build of them, and only if that works everywhere each does it. One that
        then does not is replaced by one that is started with them.
        """
        assembly.rules(settings)
        problems = await self._ask_all("try", settings)
        if problems:
            raise ConfigError("\n".join(f"worker {post.number}: {why}" for post, why in problems.items()))
        self._settings, self._since = settings, time.time()
        logs.set_up(settings.log.format, settings.log.level)
        for post, why in (await self._ask_all("adopt", settings)).items():
            _log.error("worker %d is replaced: %s", post.number, why)
            post.kill()

    async def _ask_all(self, word: str, settings: Settings) -> dict[Post, str]:
        """Ask all workers at once; why those that failed did."""

        async def ask(post: Post) -> str | None:
            try:
                answer = await post.ask(word, settings, seconds=_TRY_SECONDS)
            except TimeoutError:
                return f"no answer within {_TRY_SECONDS:g} s"
            return str(answer["problem"]) if answer and "problem" in answer else None

        found = zip(self._posts, await asyncio.gather(*map(ask, self._posts)), strict=True)
        return {post: why for post, why in found if why}
