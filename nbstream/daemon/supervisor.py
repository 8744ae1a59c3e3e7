"""Several processes that serve mail: a parent, which handles none itself, and workers that share listeners.

Rules: the parent binds the addresses, starts workers by exec, and replaces one that has died or has missed
``MISSED_BEATS`` signs of life in a row. A worker that says that the configuration or the stored model cannot be
used, or dies before any was ready, ends the daemon, as it would end a single process. New settings are checked
before any worker gets them; all have the same ones, and a worker that cannot apply them is replaced.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import nbstream
from nbstream import logs
from nbstream.daemon.daemon import MainProcess
from nbstream.daemon.listeners import check_settings
from nbstream.daemon.metrics import ProcessMetrics
from nbstream.daemon.sockets import ListenerSockets, close_sockets
from nbstream.daemon.status import READY, STARTING, WorkerStatus
from nbstream.daemon.worker import APPLIED, BEAT_SECONDS, FAILED, FAILED_FOR_GOOD, settings_file
from nbstream.errors import CannotStart, ConfigError, StoreUnavailable
from nbstream.file_locks import translate_os_errors
from nbstream.logs import event_fields
from nbstream.metrics import (
    SUPERVISOR,
    MetricsRegistry,
    create_member_files,
    join_folder,
    member_died,
    prepare_folder,
)
from nbstream.store.backoff import RESTART_WAITS, Backoff
from nbstream.store.embedded import EmbeddedRedis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.daemon.config import Settings
    from nbstream.daemon.service_manager import ServiceManager
    from nbstream.daemon.sockets import SocketsByName

_log = logging.getLogger(__name__)

MISSED_BEATS = 6  # of a worker that hangs: connections still come to it, and nobody accepts them
_START_BEATS = 6  # more than that until a worker says the first word, since it has to load all its modules
_STEADY_SECONDS = 60.0  # a worker that lived for this long did not end because of how it was started
_APPLY_SECONDS = 10.0  # for workers to apply settings
_EXIT_SECONDS = 5.0  # for a process to end after its end of the socket was closed
_LATE_SECONDS = 5.0  # beyond drain_seconds: then a worker that has not ended is killed

# The worker runs this very copy of nbstream. It imports everything else as any program does, but nothing from the
# working folder.
_WORKER_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import nbstream; del sys.path[0]; "
    "from nbstream.daemon.worker import main; sys.exit(main())"
)
_PACKAGE_FOLDER = str(Path(nbstream.__file__).absolute().parents[1])


class Worker:
    """Worker ``number``, from 1 on: a process, which another one replaces when it ends."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: socket.socket | None = None
        self.state = STARTING
        self.state_since = 0.0
        self.missed_beats = 0
        self.failure = ""
        self.has_applied = asyncio.Event()  # the settings that it was sent last
        self.has_ended = asyncio.Event()

    @property
    def is_serving(self) -> bool:
        """Whether it accepts mail, with or without counts."""
        return self.process is not None and self.state != STARTING

    @property
    def status(self) -> WorkerStatus:
        """What is said of its process, which there is."""
        assert self.process
        return WorkerStatus(self.process.pid, self.state, self.state_since)

    def start(self, settings: Settings, metrics_folder: Path, sockets: SocketsByName) -> None:
        """Start a process, which inherits the sockets. Raises ``OSError``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file = settings_file(settings)
        inherited = {name: [listening.fileno() for listening in opened] for name, opened in sockets.items()}
        start = {
            "version": nbstream.__version__,
            "number": self.number,
            "parent": theirs.fileno(),
            "settings": file,
            "metrics": str(metrics_folder),
            "sockets": inherited,
        }
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", _WORKER_PROGRAM, _PACKAGE_FOLDER, json.dumps(start)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), file, *itertools.chain.from_iterable(inherited.values())),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(file)
        ours.setblocking(False)
        self.connection, self.failure, self.missed_beats = ours, "", -_START_BEATS
        self.has_ended.clear()
        self._set_state(STARTING)

    def hear(self) -> bool:
        """Take in one message; return False where the process has ended."""
        assert self.connection
        try:
            message = self.connection.recv(1 << 16).decode()
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.missed_beats = 0
        if message == APPLIED:
            self.has_applied.set()
        elif message.startswith(FAILED):
            self.failure = message.removeprefix(FAILED)
        elif message and message != self.state:
            self._set_state(message)
        return bool(message)

    def _set_state(self, state: str) -> None:
        self.state, self.state_since = state, time.time()

    def send_settings(self, file: int) -> None:
        """Send new settings; one that takes in nothing is killed, and its successor begins with them."""
        if self.connection is None:
            return
        self.has_applied.clear()
        try:
            socket.send_fds(self.connection, [b"."], [file])
        except OSError:
            self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self.process:
            self.process.send_signal(number)

    async def reap(self) -> int:
        """Wait for the process, which has ended or is killed soon; return its exit code."""
        assert self.process
        assert self.connection
        self.connection.close()
        code = await asyncio.to_thread(_end_of, self.process)
        self.process = self.connection = None
        self.has_applied.set()  # the next process begins with the settings in force
        return code


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process that ends; one that does not is killed."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_EXIT_SECONDS)
    process.kill()
    return process.wait()


class Supervisor(MainProcess):
    """The daemon of several ``workers``; ``run`` returns after a drain."""

    def __init__(self, settings: Settings, workers: int, service_manager: ServiceManager | None = None) -> None:
        super().__init__(settings, service_manager)
        self._worker_count = workers
        self._metrics_folder = settings.state_dir.absolute() / "metrics"
        self._all_workers = [Worker(number) for number in range(1, workers + 1)]
        self._any_was_ready = False
        self._all_were_ready = False

    @property
    def _is_loaded(self) -> bool:
        return all(worker.state == READY for worker in self._all_workers)

    @property
    def _lives(self) -> bool:
        return self._stop.is_set() or any(worker.is_serving for worker in self._all_workers)

    @property
    def _workers(self) -> Sequence[WorkerStatus]:
        return [worker.status for worker in self._all_workers if worker.process]

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        members = [SUPERVISOR, *(str(worker.number) for worker in self._all_workers)]
        with translate_os_errors(self._settings.state_dir):
            prepare_folder(self._metrics_folder, members)
        join_folder(self._metrics_folder, SUPERVISOR)
        self._metrics = ProcessMetrics(MetricsRegistry(self._metrics_folder), self._engine.name)
        with ExitStack() as stack:
            if self._settings.redis.is_embedded:  # else it would be the child of a worker, and end with that
                embedded = EmbeddedRedis(self._settings.state_dir)
                stack.callback(embedded.close)
                embedded.open()
                try:
                    embedded.start()
                except StoreUnavailable as error:
                    _log.error("starting without Redis: %s", error)
            self._sockets = ListenerSockets(self._settings, for_workers=True)
            stack.callback(self._sockets.close)
            async with self._reload_and_answer(self._metrics) as background:
                background.every("beat", BEAT_SECONDS, self._count_beats, waits_first=True)
                await self._keep_all_serving(self._sockets, on_ready)

    async def _keep_all_serving(self, sockets: ListenerSockets, on_ready: Callable[[], None]) -> None:
        """Keep all workers running until ``stop``, or until no worker can serve; then let them drain."""
        keeping = [
            asyncio.create_task(self._keep_serving(worker, sockets, on_ready), name=f"worker {worker.number}")
            for worker in self._all_workers
        ]
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([stopping, *keeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            _log.info("draining")
            self.stop()
            # Otherwise a client of a unix socket that the workers have closed would wait for nobody.
            sockets.close()
            for worker in self._all_workers:
                worker.signal(signal.SIGTERM)
            seconds = self._reloader.settings.drain_seconds + _LATE_SECONDS
            _, late = await asyncio.wait(keeping, timeout=seconds)
            if late:
                _log.error(
                    "draining timed out: workers are killed",
                    extra=event_fields(workers=", ".join(str(w.number) for w in self._all_workers if w.process)),
                )
            for worker in self._all_workers:
                worker.signal(signal.SIGKILL)
        await asyncio.gather(*keeping)

    async def _keep_serving(self, worker: Worker, sockets: ListenerSockets, on_ready: Callable[[], None]) -> None:
        """Replace the worker whenever it ends, until ``stop``.

        Raises ``CannotStart`` or ``ConfigError`` where another one could not serve either.
        """
        backoff = Backoff(RESTART_WAITS)
        while not self._stop.is_set():
            started = time.monotonic()
            ending = await self._run_worker(worker, sockets, on_ready)
            if self._stop.is_set():
                return
            if ending and not self._any_was_ready:
                raise CannotStart(f"no worker became ready: the first {ending}")
            member_died(self._metrics_folder, str(worker.number))
            if time.monotonic() - started >= _STEADY_SECONDS:
                backoff.reset()
            seconds = backoff.next_wait()
            fields = event_fields(worker=worker.number, seconds=seconds)
            if ending:
                self._metrics.worker_died()
                _log.error("worker %s; starting another one", ending, extra=fields)
            else:
                _log.info("worker drained; starting another one", extra=fields)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stop.wait()

    async def _run_worker(self, worker: Worker, sockets: ListenerSockets, on_ready: Callable[[], None]) -> str:
        """Run one process of the worker, and return how it ended: "" for a drain.

        Raises ``CannotStart`` or ``ConfigError`` where the daemon is to end with it.
        """
        try:
            create_member_files(self._metrics_folder, str(worker.number))
            own_sockets = sockets.open_for_worker()
            try:
                worker.start(self._reloader.settings, self._metrics_folder, own_sockets)
            finally:
                close_sockets(own_sockets)
        except OSError as error:
            return f"cannot be started: {error}"
        connection, loop = worker.connection, asyncio.get_running_loop()
        assert connection
        loop.add_reader(connection, self._hear, worker, on_ready)
        try:
            await worker.has_ended.wait()
        finally:
            loop.remove_reader(connection)
        code = await worker.reap()
        if self._stop.is_set():
            return ""
        if code == FAILED_FOR_GOOD:
            raise ConfigError(worker.failure)
        if worker.failure and not self._any_was_ready:
            raise CannotStart(worker.failure)
        return f"failed: {worker.failure}" if worker.failure else _describe_exit(code)

    def _hear(self, worker: Worker, on_ready: Callable[[], None]) -> None:
        was_serving = worker.is_serving
        assert worker.process
        if not worker.hear():
            assert worker.connection
            asyncio.get_running_loop().remove_reader(worker.connection)
            worker.has_ended.set()
        elif worker.is_serving and not was_serving:
            self._any_was_ready = True
            _log.info("worker ready", extra=event_fields(worker=worker.number, pid=worker.process.pid))
            if not self._all_were_ready and all(other.is_serving for other in self._all_workers):
                self._all_were_ready = True
                on_ready()

    async def _count_beats(self) -> None:
        """Kill a worker that is silent.

        Beats are counted, and no time is measured: a whole machine or container may have been frozen, and those of
        its processes that go on first must not kill the others.
        """
        for worker in self._all_workers:
            worker.missed_beats += 1
            if worker.process and worker.missed_beats > MISSED_BEATS:
                _log.error(
                    "no sign of life from a worker for %g s: it is killed",
                    MISSED_BEATS * BEAT_SECONDS,
                    extra=event_fields(worker=worker.number, pid=worker.process.pid),
                )
                worker.missed_beats = 0
                worker.signal(signal.SIGKILL)

    async def _apply(self, settings: Settings) -> None:
        """Send the settings to all workers; return when those that answer have applied them."""
        check_settings(settings)
        file = settings_file(settings)
        try:
            logs.set_up_logging(settings.log)
            serving = [worker for worker in self._all_workers if worker.is_serving]
            for worker in self._all_workers:
                worker.send_settings(file)
        finally:
            os.close(file)
        with suppress(TimeoutError):
            async with asyncio.timeout(_APPLY_SECONDS):
                for worker in serving:
                    await worker.has_applied.wait()
        for worker in serving:
            if not worker.has_applied.is_set():
                _log.error("worker %d did not apply the new settings: it is killed", worker.number)
                worker.signal(signal.SIGKILL)


def _describe_exit(code: int) -> str:
    """Return how a process ended, by its exit code; "" for 0."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}  # most real-time signals have no name
        return f"was killed by {names.get(-code, f'signal {-code}')}"
    return f"exited with code {code}" if code else ""
