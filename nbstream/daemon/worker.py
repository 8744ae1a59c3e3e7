"""A worker: one of the processes that serve mail for a parent, on sockets that the parent gave it.

Rules: its parent alone tells it what to do, over the channel; at the end of the channel, however the parent ended,
it drains. SIGTERM has it drain too, and the parent then puts a fresh one in its place. It is started by exec in a
session of its own, so that a terminal's signals go to the parent alone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from nbstream import __version__, config, logs
from nbstream.assembly.store import open_redis
from nbstream.daemon import thread_switching
from nbstream.daemon.addresses import close_sockets
from nbstream.daemon.channel import Channel, pack_settings, unpack_settings
from nbstream.daemon.server import Server
from nbstream.daemon.tasks import cancel_and_wait
from nbstream.errors import CannotStart, NbstreamError
from nbstream.metrics import multiprocess
from nbstream.metrics.daemon import DaemonMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.config import Settings
    from nbstream.daemon.channel import ChannelMessage

_log = logging.getLogger(__name__)

# The exit codes of a worker that cannot serve, which it also sends to its supervisor. They stay as they are: after
# an upgrade the supervisor of the older release starts workers of this one, until it is restarted itself.
FAILED_FOR_NOW = 75
FAILED_FOR_GOOD = 78


def start_message(
    settings: Settings, since: float, number: int, metrics: Path, inherited: Mapping[str, list[int]]
) -> ChannelMessage:
    """The first message to a worker; ``inherited`` are the descriptors of its sockets, by door."""
    return {
        "version": __version__,
        "settings": pack_settings(settings),
        "since": since,
        "number": number,
        "metrics": str(metrics),
        "sockets": inherited,
    }


def main() -> int:
    """Serve until the parent ends it; the only argument is the descriptor of the channel."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    thread_switching.shorten_switch_interval()
    return uvloop.run(_serve_channel(_inherited_socket(int(sys.argv[1]))))


async def _serve_channel(end: socket.socket) -> int:
    channel = await Channel.over_socket(end)
    first = await channel.receive()
    if first is None:
        return 0
    try:
        await _run_server(channel, first)
    except NbstreamError as error:
        code = FAILED_FOR_NOW if error.temporary else FAILED_FOR_GOOD
        channel.send_soon({"failed": str(error), "code": code})
        return code
    finally:
        await channel.close()
    return 0


async def _run_server(channel: Channel, first: ChannelMessage) -> None:
    if first["version"] != __version__:
        # What the parent sends, and how it is to be understood, may have changed.
        raise CannotStart(f"nbstream {first['version']} runs, but {__version__} is installed: restart the daemon")
    settings, number, folder = unpack_settings(first["settings"]), int(first["number"]), Path(first["metrics"])
    logs.set_up_logging(settings.log.format, settings.log.level, {"worker": number})
    multiprocess.join_folder(folder, str(number))
    metrics = DaemonMetrics.create(folder)
    house = Server(settings, metrics, worker=number)
    metrics.process.set_policy(config.policy_hash(settings), since=float(first["since"]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, house.stop)
    sockets = {name: [_inherited_socket(each) for each in found] for name, found in first["sockets"].items()}
    obeying = asyncio.create_task(_follow_supervisor(channel, house, metrics), name="parent")
    try:
        async with open_redis(settings) as clients:
            await house.run(clients, lambda: sockets, lambda loaded: channel.send_soon({"ready": loaded}))
    finally:
        close_sockets(sockets)
        await cancel_and_wait(obeying)


def _inherited_socket(descriptor: int) -> socket.socket:
    found = socket.socket(fileno=descriptor)
    found.set_inheritable(False)
    found.setblocking(False)
    return found


async def _follow_supervisor(channel: Channel, house: Server, metrics: DaemonMetrics) -> None:
    """Do what the parent says, until it says that this is the end, or ends itself."""
    while (message := await channel.receive()) is not None:
        if message.get("do") == "stop":
            house.stop()
            continue
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            answer["told"] = _execute_command(message, house, metrics)
        except Exception as error:  # noqa: BLE001 - the parent is told, and mail goes on
            _log.exception("what the parent asked for failed")
            answer["problem"] = str(error) if isinstance(error, NbstreamError) else "a fault; the log has it"
        channel.send_soon(answer)
    house.stop()


def _execute_command(message: ChannelMessage, house: Server, metrics: DaemonMetrics) -> str:
    match message["do"]:
        case "try":
            house.check_settings(unpack_settings(message["settings"]))
        case "adopt":
            house.apply_settings(unpack_settings(message["settings"]), float(message["since"]))
        case "state":
            return metrics.registry.state_text().decode()
        case "answer":  # that it can is all that the parent wants to know
            pass
    return ""
