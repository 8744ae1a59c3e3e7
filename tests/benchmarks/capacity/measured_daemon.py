"""A daemon in a process of its own that exists to be measured.

Rules: it ends with the context, at the end of the pipe to this process, however that ended, and at Ctrl-C, which a
terminal sends to both. What it prints and logs goes nowhere, but it is written, since that is part of its work.
The settings travel through the pipe of the start alone, not in a command line, which others may read.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import uvloop

from nbstream import logs
from nbstream.addresses import TcpAddress
from nbstream.daemon import signals
from nbstream.daemon.daemon import Daemon
from nbstream.errors import CannotStart, NbstreamError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from multiprocessing.connection import Connection

    from nbstream.config import Settings
    from nbstream.daemon.sockets import ListenAddresses

_READY_SECONDS = 60.0
_END_SECONDS = 45.0
_ANSWER_SECONDS = 30.0
_CPU_QUESTION = "cpu seconds"


class MeasuredDaemon:
    """A running daemon: the address of its HTTP listener, and the CPU time that it has used."""

    def __init__(self, host: str, port: int, pipe: Connection[object, object]) -> None:
        self.host = host
        self.port = port
        self._pipe = pipe

    async def cpu_seconds(self) -> float:
        """Return the CPU seconds of the process until now; raises ``CannotStart`` if it has ended."""
        try:
            self._pipe.send(_CPU_QUESTION)
        except OSError as error:
            raise CannotStart("the measured daemon has ended") from error
        return float(str(await _receive(self._pipe, _ANSWER_SECONDS)))


@asynccontextmanager
async def measured_daemon(settings: Settings) -> AsyncIterator[MeasuredDaemon]:
    """Run a daemon with these settings, whose HTTP listener has a TCP address.

    Raises ``CannotStart`` where it does not get ready.
    """
    context = multiprocessing.get_context("spawn")  # a fork would share this process's loop and connections
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(settings, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        address = await _receive(ours, _READY_SECONDS)
        if not isinstance(address, tuple):
            raise CannotStart(f"the measured daemon does not start: {address}")
        yield MeasuredDaemon(str(address[0]), int(address[1]), ours)
    finally:
        ours.close()  # which ends the daemon
        await asyncio.to_thread(process.join, _END_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()


async def _receive(pipe: Connection[object, object], seconds: float) -> object:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        async with asyncio.timeout(seconds):
            await readable.wait()
        return pipe.recv()
    except TimeoutError as error:
        raise CannotStart(f"the measured daemon did not answer in {seconds:.0f} s") from error
    except EOFError as error:
        raise CannotStart("the measured daemon has ended") from error
    finally:
        loop.remove_reader(pipe.fileno())


def _serve(settings: Settings, pipe: Connection[object, object]) -> None:
    """Serve until the other end of the pipe is closed; this is the process of the daemon."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(silence, stream.fileno())
    logs.set_up_logging(settings.log)
    signals.shorten_switch_interval()
    try:
        uvloop.run(_serve_until_closed(settings, pipe))
    except NbstreamError as error:
        with suppress(OSError):
            pipe.send(str(error))


async def _serve_until_closed(settings: Settings, pipe: Connection[object, object]) -> None:
    daemon = Daemon(settings)
    loop = asyncio.get_running_loop()

    def ready(addresses: ListenAddresses) -> None:
        address = addresses["http"]
        assert isinstance(address, TcpAddress)
        pipe.send((address.host, address.port))

    def answer() -> None:
        try:
            pipe.recv()
            pipe.send(time.process_time())
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            daemon.stop()

    loop.add_reader(pipe.fileno(), answer)
    with suppress(OSError):  # of the pipe: nobody waits for this daemon any more
        await daemon.run(ready)
