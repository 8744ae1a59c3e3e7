"""Several processes that serve mail: a parent, which handles none itself, and workers that share listeners.

Rules: the parent has no event loop. It binds the addresses, starts workers by exec, and replaces one that has died
or has been silent for ``SILENCE_SECONDS``. A worker that says that the configuration or the stored model cannot
be used, or dies before any was ready, ends the daemon, as it would end a single process. New settings are checked
before any worker gets them; all have the same ones, and a worker that cannot apply them is replaced. While the
file is read, and while workers apply the settings, the parent does all of its other work.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from concurrent import futures
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import nbstream
from nbstream import logs
from nbstream.daemon.metrics import ProcessMetrics
from nbstream.daemon.reloader import READ_SECONDS, Reloader
from nbstream.daemon.runtime import check_settings
from nbstream.daemon.sockets import ListenerSockets, close_sockets
from nbstream.daemon.status import (
    READY,
    SILENT,
    STARTING,
    WorkerStatus,
    log_ready,
    policy_answer,
    service_status,
)
from nbstream.daemon.worker import APPLIED, BEAT_SECONDS, FAILED, FAILED_FOR_GOOD, settings_file
from nbstream.engine.choice import choose_engine
from nbstream.errors import WorkerFailed, WorkerFailedForGood
from nbstream.file_locks import lock_daemon, translate_os_errors
from nbstream.logs import event_fields
from nbstream.metrics import (
    SUPERVISOR,
    MetricsRegistry,
    create_member_files,
    join_folder,
    member_died,
    prepare_folder,
)
from nbstream.server.control_socket import ControlListener
from nbstream.store.backoff import RESTART_WAITS, Backoff
from nbstream.store.embedded import EmbeddedRedis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nbstream.daemon.config import Settings
    from nbstream.daemon.service_manager import ServiceManager
    from nbstream.daemon.sockets import ListenAddresses, SocketsByName
    from nbstream.server.control_socket import SendAnswer

_log = logging.getLogger(__name__)

SILENCE_SECONDS = 30.0  # of a worker that hangs: connections still come to it, and nobody accepts them
_START_SECONDS = 30.0  # more than that until a worker says the first word, since it has to load all its modules
_STEADY_SECONDS = 60.0  # a worker that lived for this long did not end because of how it was started
_APPLY_SECONDS = 10.0  # for workers to apply settings
_EXIT_SECONDS = 5.0  # for a process to end after its end of the socket was closed
_LATE_SECONDS = 5.0  # beyond drain_seconds: then a worker that has not ended is killed
_READING_SECONDS = 0.01  # between two looks whether the configuration was read
_MAX_REQUESTS = 16  # that wait for the configuration to be read
_TURN_SECONDS = 0.25  # the longest time between two looks at the clock, and at what a signal asked for

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
        self.start_at = 0.0  # by the monotonic clock, as all times but ``state_since``
        self.state = STARTING
        self.state_since = 0.0
        self.heard_at = 0.0
        self.has_applied = True  # the settings that it was sent last
        self.failure = ""
        self._backoff = Backoff(RESTART_WAITS)
        self._started_at = 0.0

    @property
    def is_serving(self) -> bool:
        """Whether it accepts mail, with or without counts."""
        return self.process is not None and self.state != STARTING

    @property
    def is_applying(self) -> bool:
        """Whether it serves, and has not yet applied the settings that it was sent."""
        return self.is_serving and not self.has_applied

    @property
    def status(self) -> WorkerStatus:
        """What is said of its process, which there is."""
        assert self.process
        is_silent = time.monotonic() > self.heard_at + 3 * BEAT_SECONDS
        return WorkerStatus(self.process.pid, SILENT if is_silent else self.state, self.state_since)

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
        self.connection, self.failure, self.has_applied = ours, "", True
        self._started_at = time.monotonic()
        self.heard_at = self._started_at + _START_SECONDS
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
        self.heard_at = max(self.heard_at, time.monotonic())
        if message == APPLIED:
            self.has_applied = True
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
        self.has_applied = False
        try:
            socket.send_fds(self.connection, [b"."], [file])
        except OSError:
            self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self.process:
            self.process.send_signal(number)

    def reap(self) -> int:
        """Wait for the process, which has ended or is killed soon; return its exit code."""
        assert self.process
        assert self.connection
        self.connection.close()
        try:
            code = self.process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process = self.connection = None
        self.has_applied = True  # the next process begins with the settings in force
        return code

    def start_later(self) -> float:
        """Have another process started after some seconds, and return them; a long life forgives former ends."""
        now = time.monotonic()
        if now - self._started_at >= _STEADY_SECONDS:
            self._backoff.reset()
        seconds = self._backoff.next_wait()
        self.start_at = now + seconds
        return seconds


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to read the configuration anew and apply it, or to say what that would do.

    ``send`` gets the answer.
    """

    is_reload: bool
    send: SendAnswer = lambda _: None


_SILENT_RELOAD = _Request(is_reload=True)


class Supervisor:
    """What ``nbstream serve`` runs where several ``workers`` serve mail; ``run`` returns after a drain.

    Raises ``ConfigError`` where the engine that the settings ask for does not fit.
    """

    def __init__(self, settings: Settings, workers: int, service_manager: ServiceManager) -> None:
        self._settings = settings
        self._service_manager = service_manager
        self._engine = choose_engine()  # each worker chooses in the same way
        self._metrics_folder = settings.state_dir.absolute() / "metrics"
        self._workers = [Worker(number) for number in range(1, workers + 1)]
        self._readers: dict[socket.socket, Callable[[], object]] = {}
        self._is_stopping = False
        self._requests: deque[_Request] = deque()  # the first one is under way where there is a reading
        self._reading: futures.Future[Settings] | None = None
        self._read_until = 0.0
        self._reload_notice = ExitStack()  # ends what the service manager was told of a reload
        self._is_applying = False
        self._tell_at = 0.0
        self._turned_at = time.monotonic()
        self._any_was_ready = False
        self._all_were_ready = False
        self._failure: WorkerFailed | None = None

    def stop(self) -> None:
        """Begin to drain, soon."""
        self._is_stopping = True

    def reload(self) -> None:
        """Read the configuration anew, soon; log, metrics and the control socket say whether it was applied.

        Where a reload without an answer waits already behind the request under way, that one does.
        """
        if _SILENT_RELOAD not in list(self._requests)[1:]:
            self._requests.append(_SILENT_RELOAD)

    def _request(self, request: _Request) -> None:
        """Take up a request of the control socket; it is answered at once where too many wait."""
        if len(self._requests) < _MAX_REQUESTS:
            self._requests.append(request)
        else:
            request.send(asdict(self._reloader.refused(["too many requests are waiting; try again later"])))

    def run(self, on_ready: Callable[[ListenAddresses], object] = lambda _: None) -> None:
        """Serve until ``stop``, then drain.

        ``on_ready`` is called once all workers accept mail. Raises ``ConfigError``, ``CannotStart`` or
        ``WorkerFailed``.
        """
        fields = event_fields(engine=self._engine.name, because=self._engine.reason, workers=len(self._workers))
        _log.info("starting nbstream %s", nbstream.__version__, extra=fields)
        with ExitStack() as stack:
            stack.enter_context(lock_daemon(self._settings.state_dir))
            members = [SUPERVISOR, *(str(worker.number) for worker in self._workers)]
            with translate_os_errors(self._settings.state_dir):
                prepare_folder(self._metrics_folder, members)
            join_folder(self._metrics_folder, SUPERVISOR)
            self._metrics = ProcessMetrics(MetricsRegistry(self._metrics_folder), self._engine.name)
            self._reloader = Reloader(self._settings, self._apply_settings, self._metrics)
            if self._settings.redis.is_embedded:  # else it would be the child of a worker, and end with that
                embedded = EmbeddedRedis(self._settings.state_dir)
                stack.callback(embedded.close)
                embedded.open()
                embedded.start()
            self._sockets = ListenerSockets(self._settings, for_workers=True)
            stack.callback(self._sockets.remove_files)
            stack.callback(self._sockets.close)
            stack.callback(self._control_listener().close)
            try:
                self._serve(on_ready)
            finally:
                self._drain()
        if self._failure:
            raise self._failure
        _log.info("stopped")

    def _control_listener(self) -> ControlListener:
        handlers: Mapping[str, Callable[[Callable[[Mapping[str, object]], None]], object]] = {
            "reload": lambda send: self._request(_Request(is_reload=True, send=send)),
            "pending": lambda send: self._request(_Request(is_reload=False, send=send)),
            "policy": lambda send: send(
                policy_answer(
                    self._reloader,
                    self._engine,
                    self._sockets.bound_addresses,
                    [worker.status for worker in self._workers if worker.process],
                )
            ),
        }
        control = ControlListener(
            handlers, self._readers.__setitem__, lambda closed: self._readers.pop(closed, None)
        )
        try:
            control.start(self._settings.state_dir)
        except OSError as error:
            _log.warning("nbstream reload cannot reach this daemon, use SIGHUP: %s", error)
        return control

    def _serve(self, on_ready: Callable[[ListenAddresses], object]) -> None:
        """Keep all workers running until ``stop``, or until no worker can serve."""
        while not self._is_stopping:
            now = time.monotonic()
            for worker in self._workers:
                if worker.process is None and now >= worker.start_at:
                    self._start(worker)
            self._turn()
            if not self._all_were_ready and all(worker.is_serving for worker in self._workers):
                self._all_were_ready = True
                log_ready(self._is_loaded, self._sockets.bound_addresses)
                self._service_manager.ready(service_status(self._is_loaded))
                on_ready(self._sockets.bound_addresses)

    @property
    def _is_loaded(self) -> bool:
        return all(worker.state == READY for worker in self._workers)

    def _drain(self) -> None:
        """Let all workers drain, and return when they have; those that do not are killed."""
        _log.info("draining")
        self._service_manager.stopping()
        # Otherwise a client of a unix socket that the workers have closed would wait for nobody.
        self._sockets.close()
        for worker in self._workers:
            worker.signal(signal.SIGTERM)
        until = time.monotonic() + self._reloader.settings.drain_seconds + _LATE_SECONDS
        while (late := [worker for worker in self._workers if worker.process]) and time.monotonic() < until:
            self._turn()
        if late:
            _log.error(
                "draining timed out: workers are killed",
                extra=event_fields(workers=", ".join(str(worker.number) for worker in late)),
            )
        for worker in late:
            worker.signal(signal.SIGKILL)
            worker.reap()

    def _turn(self) -> None:
        """Handle what comes within a moment; kill a worker that is silent.

        Time in which this process itself stood still is no silence: a whole machine or container may have been
        frozen, and those of its processes that go on first must not kill the others.
        """
        if not self._is_applying:
            self._go_on_reloading()
        self._read(list(self._readers), _READING_SECONDS if self._reading else _TURN_SECONDS)
        now = time.monotonic()
        stood_still = max(0.0, now - self._turned_at - BEAT_SECONDS)
        self._turned_at = now
        for worker in self._workers:
            worker.heard_at = max(worker.heard_at, min(worker.heard_at + stood_still, now))
            if worker.process and now > worker.heard_at + SILENCE_SECONDS:
                _log.error(
                    "no sign of life from a worker for %g s: it is killed",
                    SILENCE_SECONDS,
                    extra=event_fields(worker=worker.number, pid=worker.process.pid),
                )
                worker.heard_at = now
                worker.signal(signal.SIGKILL)
        if now >= self._tell_at:
            self._tell_at = now + self._service_manager.round_seconds
            lives = self._is_stopping or any(worker.is_serving for worker in self._workers)
            self._service_manager.tell_again(service_status(self._is_loaded), lives=lives)

    def _read(self, sockets: Iterable[socket.socket], seconds: float) -> None:
        """Wait for these sockets, and call the readers of those that can be read."""
        for readable in select.select(sockets, [], [], seconds)[0]:
            reader = self._readers.get(readable)  # another reader may have closed it
            if reader:
                reader()

    def _start(self, worker: Worker) -> None:
        try:
            create_member_files(self._metrics_folder, str(worker.number))
            sockets = self._sockets.open_for_worker()
            try:
                worker.start(self._reloader.settings, self._metrics_folder, sockets)
            finally:
                close_sockets(sockets)
        except OSError as error:
            self._replace(worker, f"cannot be started: {error}")
            return
        assert worker.connection
        self._readers[worker.connection] = partial(self._hear, worker)

    def _hear(self, worker: Worker) -> None:
        was_serving = worker.is_serving
        assert worker.process
        assert worker.connection
        if not worker.hear():
            del self._readers[worker.connection]
            self._ended(worker, worker.reap())
        elif worker.is_serving and not was_serving:
            self._any_was_ready = True
            _log.info("worker ready", extra=event_fields(worker=worker.number, pid=worker.process.pid))

    def _ended(self, worker: Worker, code: int) -> None:
        """Have an ended worker replaced, unless no other one could serve or all are to end."""
        if self._is_stopping:
            return
        if code == FAILED_FOR_GOOD:
            self._fail(WorkerFailedForGood(worker.failure))
        elif worker.failure and not self._any_was_ready:
            self._fail(WorkerFailed(worker.failure))
        else:
            self._replace(worker, f"failed: {worker.failure}" if worker.failure else _describe_exit(code))

    def _fail(self, failure: WorkerFailed) -> None:
        self._failure, self._is_stopping = failure, True

    def _replace(self, worker: Worker, ending: str) -> None:
        """Have a worker that ended in this way, "" for a drain, replaced; where none was ready, give up."""
        if ending and not self._any_was_ready:
            self._fail(WorkerFailed(f"no worker became ready: the first {ending}"))
            return
        member_died(self._metrics_folder, str(worker.number))
        fields = event_fields(worker=worker.number, seconds=worker.start_later())
        if ending:
            self._metrics.worker_died()
            _log.error("worker %s; starting another one", ending, extra=fields)
        else:
            _log.info("worker drained; starting another one", extra=fields)

    def _go_on_reloading(self) -> None:
        """Begin to read the configuration for the first request, or answer it where that is over."""
        if self._reading is None:
            if self._requests and not self._is_stopping:
                if self._requests[0].is_reload:
                    self._reload_notice.enter_context(self._service_manager.reloading())
                self._reading, self._read_until = self._reloader.start_reading(), time.monotonic() + READ_SECONDS
        elif self._reading.done() or time.monotonic() > self._read_until:
            reading, self._reading, request = self._reading, None, self._requests.popleft()
            with self._reload_notice:
                result = (self._reloader.reload if request.is_reload else self._reloader.pending)(reading)
            request.send(asdict(result))

    def _apply_settings(self, settings: Settings) -> None:
        """Send the settings to all workers; return when those that answer have applied them."""
        check_settings(settings)
        file = settings_file(settings)
        try:
            logs.set_up_logging(settings.log)
            for worker in self._workers:
                worker.send_settings(file)
        finally:
            os.close(file)
        until, self._is_applying = time.monotonic() + _APPLY_SECONDS, True
        try:
            while any(worker.is_applying for worker in self._workers) and time.monotonic() < until:
                self._turn()
        finally:
            self._is_applying = False
        for worker in self._workers:
            if worker.is_applying:
                _log.error("worker %d did not apply the new settings: it is killed", worker.number)
                worker.signal(signal.SIGKILL)


def _describe_exit(code: int) -> str:
    """Return how a process ended, by its exit code; "" for 0."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}  # most real-time signals have no name
        return f"was killed by {names.get(-code, f'signal {-code}')}"
    return f"exited with code {code}" if code else ""
