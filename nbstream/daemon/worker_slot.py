"""A post: the place of one worker, in which the parent keeps a process at work."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import nbstream
from nbstream.daemon import addresses
from nbstream.daemon.backoff import Backoff
from nbstream.daemon.channel import Channel, packed
from nbstream.daemon.tasks import ended
from nbstream.daemon.worker import orders
from nbstream.errors import ConfigError, WorkerFailed
from nbstream.metrics import multiprocess

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Mapping

    from nbstream.config import Settings
    from nbstream.daemon.addresses import Sockets
    from nbstream.daemon.channel import Message

_log = logging.getLogger(__name__)

_LATE_SECONDS = 5.0  # for a process to end after its channel has
_MAX_ASKED = 16
_ROUND_SECONDS = 10.0  # between two looks whether the worker still answers
_SILENCE_SECONDS = 30.0  # of a worker that hangs: connections still come to it, and nobody takes them

# The worker runs this very copy of nbstream, and finds all else where any program does, not in the working folder.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import nbstream; del sys.path[0]; "
    "from nbstream.daemon.worker import main; sys.exit(main())"
)
_FOLDER = str(Path(nbstream.__file__).absolute().parents[1])


@dataclass(frozen=True, slots=True)
class Crew:
    """What all posts have in common; the functions tell what holds when they are called."""

    settings: Callable[[], Settings]
    since: Callable[[], float]
    share: Callable[[], Sockets]
    metrics: Path
    died: Callable[[], object]
    served: Callable[[], bool]
    """Whether any worker was ever ready: then another one may well be."""


class Post:
    """The place of worker ``number``, from 1 on. ``ready`` is set once the first worker here was ready."""

    def __init__(self, number: int, crew: Crew) -> None:
        self.number = number
        self.ready = asyncio.Event()
        self.at_work = False
        self.loaded = False
        self._crew = crew
        self._process: Process | None = None
        self._channel: Channel | None = None
        self._stopping = asyncio.Event()
        self._ids = itertools.count()
        self._asked: dict[int, asyncio.Future[Message | None]] = {}

    @property
    def pid(self) -> int | None:
        """The process at work; None between two of them."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Keep a worker at work until ``stop``, and return when it has ended.

        Raises ``WorkerFailed`` where no other worker could do better: one says so, or none was ever ready.
        """
        backoff, loop = Backoff(), asyncio.get_running_loop()
        while not self._stopping.is_set():
            begin = loop.time()
            try:
                how = await self._once()
            except OSError as error:
                how = f"cannot be started: {error}"
            if self._stopping.is_set():
                return
            if how and not self._crew.served():
                raise WorkerFailed(f"no worker gets ready: the first to end {how}", WorkerFailed.exit_code)
            seconds = backoff.after(loop.time() - begin)
            multiprocess.gone(self._crew.metrics, str(self.number))
            fields = {"worker": self.number, "seconds": seconds}
            if how:
                self._crew.died()
                _log.error("worker %s; another one is started", how, extra={"fields": fields})
            else:
                _log.info(
                    "worker was told to end, and has drained; another one is started", extra={"fields": fields}
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()

    def stop(self) -> None:
        """Have the worker drain, and start no other one."""
        self._stopping.set()
        if self._channel:
            self._channel.post({"do": "stop"})

    def kill(self) -> None:
        """End the worker now."""
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def ask(self, word: str, settings: Settings | None = None, *, seconds: float) -> Message | None:
        """What the worker answers: ``told``, or the ``problem``; None where there is no worker, or it has gone.

        Raises ``TimeoutError``; for a scraper at once where too many wait for an answer.
        """
        if self._channel is None:
            return None
        if word == "state" and len(self._asked) >= _MAX_ASKED:
            raise TimeoutError
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        message: dict[str, object] = {"id": number, "do": word}
        if settings:
            message |= {"settings": packed(settings), "since": self._crew.since()}
        async with asyncio.timeout(seconds):
            try:
                await self._channel.send(message)
                found: Message | None = await answer
            except ConnectionError:
                return None
            finally:
                del self._asked[number]
        return found

    async def _once(self) -> str:
        """One worker's life; how it ended, "" where it was told to by SIGTERM."""
        multiprocess.make(self._crew.metrics, str(self.number))
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process, inherited = await self._spawn(theirs)
            channel = await Channel.of(ours)
        except BaseException:
            ours.close()
            raise
        self._process, self._channel = process, channel
        watching = asyncio.create_task(self._watch(), name=f"watch over worker {self.number}")
        try:
            # The settings of this moment: what is adopted from now on is sent over the channel, after them. Nobody
            # waits for the worker to read them, since it has all its modules to load first.
            channel.post(self._orders(inherited))
            if self._stopping.is_set():
                self.stop()  # it was told while there was no channel
            failed = await self._listen(channel)
        finally:
            self._channel, self.at_work = None, False
            await ended(watching)
            await channel.close()
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_result(None)
        code = await self._ended(process)
        self._process = None
        if failed is None:
            return _told(code)
        if failed["code"] == ConfigError.exit_code or not self._crew.served():
            raise WorkerFailed(str(failed["failed"]), int(failed["code"]))
        return f"failed: {failed['failed']}"

    async def _watch(self) -> None:
        """End a worker that answers nothing any more, so that another one takes its place."""
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            try:
                await self.ask("answer", seconds=_SILENCE_SECONDS)
            except TimeoutError:
                fields = {"worker": self.number, "pid": self.pid}
                _log.error(
                    "worker has not answered for %g s: it is killed", _SILENCE_SECONDS, extra={"fields": fields}
                )
                self.kill()
                return

    def _orders(self, inherited: Mapping[str, list[int]]) -> Message:
        crew = self._crew
        return orders(crew.settings(), crew.since(), self.number, crew.metrics, inherited)

    async def _spawn(self, theirs: socket.socket) -> tuple[Process, Mapping[str, list[int]]]:
        """Start a process; the descriptors that it inherits, by door."""
        sockets = self._crew.share()
        try:
            inherited = {name: [each.fileno() for each in found] for name, found in sockets.items()}
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _PROGRAM, _FOLDER, str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *itertools.chain.from_iterable(inherited.values())),
                start_new_session=True,
            )
        finally:
            addresses.close(sockets)
        return process, inherited

    async def _listen(self, channel: Channel) -> Message | None:
        """Take what the worker says until it says no more; what it could not go on for."""
        failed = None
        while (message := await channel.receive()) is not None:
            if "ready" in message:
                self.loaded = bool(message["ready"])
                self.at_work = True
                self.ready.set()
                _log.info("worker ready", extra={"fields": {"worker": self.number, "pid": self.pid}})
            elif "failed" in message:
                failed = message
            elif (answer := self._asked.get(message.get("id", -1))) and not answer.done():
                answer.set_result(message)
        return failed

    @staticmethod
    async def _ended(process: Process) -> int:
        """The exit code of a worker that has nothing more to say."""
        try:
            async with asyncio.timeout(_LATE_SECONDS):
                return await process.wait()
        except TimeoutError:
            process.kill()
            return await process.wait()


def _told(code: int) -> str:
    """How a process ended, by its exit code; "" for 0."""
    if code < 0:
        names = {each.value: each.name for each in signal.Signals}  # not of all: most real-time ones have none
        return f"was ended by {names.get(-code, f'signal {-code}')}"
    return f"ended with exit code {code}" if code else ""
