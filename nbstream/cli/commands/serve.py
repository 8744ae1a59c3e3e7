"""``nbstream serve``: run the daemon."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import resource
import shlex
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nbstream import logs
from nbstream.addresses import TcpAddress
from nbstream.daemon import config
from nbstream.daemon.daemon import Daemon
from nbstream.daemon.listeners import HTTP
from nbstream.daemon.server import shorten_switch_interval
from nbstream.daemon.service_manager import ServiceManager
from nbstream.daemon.status import create_page_link, link_note, link_url
from nbstream.daemon.supervisor import Supervisor
from nbstream.errors import NbstreamError
from nbstream.listeners.smtp import SMTP
from nbstream.store.cancellation import cancel_and_wait
from nbstream.system_users import current_user

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.daemon.sockets import ListenAddresses
    from nbstream.terminal import Output


_log = logging.getLogger(__name__)

_LATE_SECONDS = 10.0


def run(options: argparse.Namespace, output: Output) -> None:
    """Serve until a signal comes."""
    hangups = _record_hangups()
    service_manager = ServiceManager.from_environment()
    settings = config.load_settings(config.find_config_file(options.config))
    logs.set_up_logging(settings.log)

    _raise_file_limit()
    shorten_switch_interval()

    async def serve() -> None:
        # Read once, at once: a later SIGHUP waits in the running loop for the handler that the daemon adds.
        reload_wanted = bool(hangups)
        workers = _worker_count(settings)
        daemon = (
            Supervisor(settings, workers, service_manager) if workers > 1 else Daemon(settings, service_manager)
        )
        if reload_wanted:
            daemon.reload()
        hints: list[asyncio.Task[None]] = []

        def ready(addresses: ListenAddresses) -> None:
            gc.collect()  # what is frozen would else keep the garbage of the start for ever
            gc.freeze()  # this stays: to look for garbage in it would hold the interpreter lock for 12 ms
            if options.hints:
                output.show(first_steps(settings, options, addresses), styled=True)
                hints.append(asyncio.create_task(show_page_link(settings, addresses, output), name="page link"))

        try:
            await daemon.run(ready)
        finally:
            for task in hints:
                await cancel_and_wait(task)
        _end_soon()

    uvloop.run(serve())


def _record_hangups() -> list[int]:
    """Return a list that gets each SIGHUP until the daemon handles them: unhandled, one would end the process."""
    hangups: list[int] = []
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup: the daemon looks for this
        signal.signal(signal.SIGHUP, lambda number, _: hangups.append(number))
    return hangups


def _worker_count(settings: Settings) -> int:
    """Return how many processes serve mail: ``auto`` is one for each CPU that this process may use."""
    return len(os.sched_getaffinity(0)) if settings.workers == "auto" else settings.workers


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as allowed: the settings bound connections, not a shell's 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _end_soon() -> None:
    """Let this process, whose work is done, end within ``_LATE_SECONDS`` whatever its threads do.

    asyncio and Python wait for all of their threads without a limit of time, and one may hang with its disk.
    """
    timer = threading.Timer(_LATE_SECONDS, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    _log.warning("exited although threads were still busy: does a disk hang?")
    os._exit(0)


def first_steps(settings: Settings, options: argparse.Namespace, addresses: ListenAddresses) -> str:
    """Return three shell commands for a newcomer: teach, send a message, look at what came out."""
    program = shlex.quote(str(Path(sys.argv[0]).absolute()))
    config_option = f" -c {shlex.quote(str(options.config.absolute()))}" if options.config else ""
    mail = "Subject: You won\\n\\nClaim your free prize now\\n"
    lines = [f"printf '{mail}' | {program} learn spam{config_option} -"]
    smtp = addresses.get(SMTP.name)
    if isinstance(smtp, TcpAddress):
        envelope = "'you@example.org', ['me@example.org']"
        send = f"import smtplib; smtplib.SMTP('{smtp.host}', {smtp.port}).sendmail({envelope}, '{mail}')"
        lines.append(f'{shlex.quote(sys.executable)} -c "{send}"')
    if settings.maildir_folder:
        lines.append(f"tail -n +1 {shlex.quote(str(settings.maildir_folder))}/new/*")
    else:
        lines.append(f"{program} status{config_option}")
    return "\n".join(
        ["", "nbstream is ready. Try, in another terminal:", "", *(f"  {line}" for line in lines), ""]
    )


async def show_page_link(settings: Settings, addresses: ListenAddresses, output: Output) -> None:
    """Show a one-time link to the page, unless the listener is off or Redis is away."""
    address = addresses.get(HTTP.name)
    if address is None:
        return
    try:
        path = await create_page_link(settings, "teach", current_user())
    except NbstreamError as error:
        output.show(f"Later, nbstream ui prints a link to the page: {error}")
    else:
        output.show(["The page:", "", f"  {link_url(address, path)}", "", *link_note(address).split("\n"), ""])
