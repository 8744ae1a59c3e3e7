"""A worker slot: the supervisor keeps one worker process running in it, and replaces one that ends."""

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
from nbstream.daemon.channel import Channel, pack_settings
from nbstream.daemon.sockets import close_sockets
from nbstream.daemon.worker import FAILED_FOR_GOOD, LOADED
from nbstream.errors import WorkerFailed, WorkerFailedForGood
from nbstream.logs import event_fields
from nbstream.metrics import multiprocess
from nbstream.store.backoff import RESTART_WAITS, Backoff
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Mapping

    from nbstream.config import Settings
    from nbstream.daemon.channel import ChannelMessage
    from nbstream.daemon.sockets import SocketsByName

_log = logging.getLogger(__name__)

_LATE_SECONDS = 5.0  # for a process to end after its channel was closed
_MAX_PENDING_ANSWERS = 16
_STEADY_SECONDS = 60.0  # a worker that lived for this long did not end because of how it was started
ROUND_SECONDS = 10.0  # between two questions whether the worker still answers
SILENCE_SECONDS = 30.0  # of a worker that hangs: connections still come to it, and nobody accepts them

# The worker runs this very copy of nbstream. It imports everything else as any program does, but nothing from the
# working folder.
_WORKER_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import nbstream; del sys.path[0]; "
    "from nbstream.daemon.worker import main; sys.exit(main())"
)
_PACKAGE_FOLDER = str(Path(nbstream.__file__).absolute().parents[1])


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What all slots have in common; the functions return what holds when they are called."""

    settings: Callable[[], Settings]
    settings_since: Callable[[], float]
    share_sockets: Callable[[], SocketsByName]
    metrics_folder: Path
    shared_memory: Path | None
    on_worker_death: Callable[[], object]
    any_was_ready: Callable[[], bool]
    """Returns whether any worker was ever ready: then another one may be, too."""


class WorkerSlot:
    """The slot of worker ``number``, from 1 on. ``ready`` is set once the first worker in it was ready."""

    def __init__(self, number: int, context: WorkerContext) -> None:
        self.number = number
        self.ready = asyncio.Event()
        self.is_serving = False
        self.loaded = False
        self._context = context
        self._process: Process | None = None
        self._channel: Channel | None = None
        self._stopping = asyncio.Event()
        self._question_ids = itertools.count()
        self._pending_answers: dict[int, asyncio.Future[ChannelMessage | None]] = {}

    @property
    def pid(self) -> int | None:
        """The id of the running process; None between two of them."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Keep a worker running until ``stop``, and return when it has ended.

        Raises ``WorkerFailed`` where another worker would fail as well: one says so, or none was ever ready.
        """
        backoff, loop = Backoff(RESTART_WAITS), asyncio.get_running_loop()
        while not self._stopping.is_set():
            begin = loop.time()
            try:
                ending = await self._run_worker()
            except OSError as error:
                ending = f"cannot be started: {error}"
            if self._stopping.is_set():
                return
            if ending and not self._context.any_was_ready():
                raise WorkerFailed(f"no worker gets ready: the first to end {ending}")
            seconds = restart_wait(backoff, loop.time() - begin)
            multiprocess.member_died(self._context.metrics_folder, str(self.number))
            fields = event_fields(worker=self.number, seconds=seconds)
            if ending:
                self._context.on_worker_death()
                _log.error("worker %s; another one is started", ending, extra=fields)
            else:
                _log.info("worker was told to end, and has drained; another one is started", extra=fields)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()

    def stop(self) -> None:
        """Let the worker drain, and start no other one."""
        self._stopping.set()
        if self._channel:
            self._channel.send_soon({"do": "stop"})

    def kill(self) -> None:
        """End the worker now."""
        if self._process and self._process.returncode is None:
            self._process.kill()

    async def ask(
        self, command: str, settings: Settings | None = None, *, seconds: float
    ) -> ChannelMessage | None:
        """Return the answer of the worker to a command: its ``result`` or the ``problem``.

        None where there is no worker, or it ends before it answers.

        Raises ``TimeoutError``; at once for ``state`` where too many already wait for an answer.
        """
        if self._channel is None:
            return None
        if command == "state" and len(self._pending_answers) >= _MAX_PENDING_ANSWERS:
            raise TimeoutError
        number, answer = next(self._question_ids), asyncio.get_running_loop().create_future()
        self._pending_answers[number] = answer
        message: dict[str, object] = {"id": number, "do": command}
        if settings:
            message |= {"settings": pack_settings(settings), "since": self._context.settings_since()}
        async with asyncio.timeout(seconds):
            try:
                await self._channel.send(message)
                received: ChannelMessage | None = await answer
            except ConnectionError:
                return None
            finally:
                del self._pending_answers[number]
        return received

    async def _run_worker(self) -> str:
        """Run one worker from its start to its end; return how it ended, "" for a drain after SIGTERM."""
        multiprocess.create_member_files(self._context.metrics_folder, str(self.number))
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process, inherited = await self._spawn(theirs)
            channel = await Channel.over_socket(ours)
        except BaseException:
            ours.close()
            raise
        self._process, self._channel = process, channel
        watching = asyncio.create_task(self._watch_worker(), name=f"watch over worker {self.number}")
        try:
            # The settings of this moment: those that are applied from now on are sent over the channel after them.
            # Nobody waits for the worker to read them, since it has to load all its modules first.
            channel.send_soon(self._start_message(inherited))
            if self._stopping.is_set():
                self.stop()  # the first call came while there was no channel
            failed = await self._read_messages(channel)
        finally:
            self._channel, self.is_serving = None, False
            await cancel_and_wait(watching)
            await channel.close()
            for answer in self._pending_answers.values():
                if not answer.done():
                    answer.set_result(None)
        code = await self._wait_for_exit(process)
        self._process = None
        if failed is None:
            return _describe_exit(code)
        if failed["code"] == FAILED_FOR_GOOD:
            raise WorkerFailedForGood(str(failed["failed"]))
        if not self._context.any_was_ready():
            raise WorkerFailed(str(failed["failed"]))
        return f"failed: {failed['failed']}"

    async def _watch_worker(self) -> None:
        """End a worker that does not answer any more; another one is started then."""
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            try:
                answer = await self.ask("ping", seconds=SILENCE_SECONDS)
            except TimeoutError:
                _log.error(
                    "worker has not answered for %g s: it is killed",
                    SILENCE_SECONDS,
                    extra=event_fields(worker=self.number, pid=self.pid),
                )
                self.kill()
                return
            if answer:
                self.loaded = answer.get("result") == LOADED

    def _start_message(self, inherited: Mapping[str, list[int]]) -> ChannelMessage:
        """Return the first message; ``inherited`` are the descriptors of the worker's sockets, by listener."""
        context = self._context
        return {
            "version": nbstream.__version__,
            "settings": pack_settings(context.settings()),
            "since": context.settings_since(),
            "number": self.number,
            "metrics": str(context.metrics_folder),
            "shared_memory": str(context.shared_memory) if context.shared_memory else None,
            "sockets": inherited,
        }

    async def _spawn(self, theirs: socket.socket) -> tuple[Process, Mapping[str, list[int]]]:
        """Start a process; return it and the descriptors that it inherits, by listener."""
        sockets = self._context.share_sockets()
        try:
            inherited = {name: [listening.fileno() for listening in opened] for name, opened in sockets.items()}
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _WORKER_PROGRAM, _PACKAGE_FOLDER, str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *itertools.chain.from_iterable(inherited.values())),
                start_new_session=True,
            )
        finally:
            close_sockets(sockets)
        return process, inherited

    async def _read_messages(self, channel: Channel) -> ChannelMessage | None:
        """Handle the messages of the worker until the last; return the one that says why it failed, if any."""
        failed = None
        while (message := await channel.receive()) is not None:
            if "ready" in message:
                self.loaded = bool(message["ready"])
                self.is_serving = True
                self.ready.set()
                _log.info("worker ready", extra=event_fields(worker=self.number, pid=self.pid))
            elif "failed" in message:
                failed = message
            elif (answer := self._pending_answers.get(message.get("id", -1))) and not answer.done():
                answer.set_result(message)
        return failed

    @staticmethod
    async def _wait_for_exit(process: Process) -> int:
        """Return the exit code of a worker whose channel was closed."""
        try:
            async with asyncio.timeout(_LATE_SECONDS):
                return await process.wait()
        except TimeoutError:
            process.kill()
            return await process.wait()


def restart_wait(backoff: Backoff, lived_seconds: float) -> float:
    """Return the seconds to wait before a worker is started again; a long life forgives the ends before it."""
    if lived_seconds >= _STEADY_SECONDS:
        backoff.reset()
    return backoff.next_wait()


def _describe_exit(code: int) -> str:
    """Return how a process ended, by its exit code; "" for 0."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}  # most real-time signals have no name
        return f"was ended by {names.get(-code, f'signal {-code}')}"
    return f"ended with exit code {code}" if code else ""
