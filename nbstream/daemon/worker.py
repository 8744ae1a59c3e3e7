"""A worker: one of the processes that serve mail for a supervisor, on sockets that the supervisor gave it.

Rules: only its supervisor tells it what to do, over the channel; at the end of the channel, however the supervisor
ended, it drains. It also drains at SIGTERM, and the supervisor then starts another worker in its place. It is
started by exec in a session of its own, so that the signals of a terminal go to the supervisor alone.
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
from nbstream.daemon import signals
from nbstream.daemon.channel import Channel, unpack_settings
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server import Server
from nbstream.daemon.sockets import close_sockets
from nbstream.engine.choice import choose_engine
from nbstream.errors import CannotStart, NbstreamError
from nbstream.metrics import multiprocess
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from nbstream.daemon.channel import ChannelMessage

_log = logging.getLogger(__name__)

# The exit codes of a worker that cannot serve, which it also sends to its supervisor. They stay as they are: after
# an upgrade the supervisor of the older release starts workers of this one, until it is restarted itself.
FAILED_FOR_NOW = 75
FAILED_FOR_GOOD = 78

_REFRESH_SECONDS = 2.0

LOADED = "loaded"
"""What a worker answers to a ping while it has counts to score mail with."""


def main() -> int:
    """Serve until the supervisor ends it; the only argument is the descriptor of the channel."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signals.shorten_switch_interval()
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
        # What the supervisor sends may have another meaning in this version.
        raise CannotStart(f"nbstream {first['version']} runs, but {__version__} is installed: restart the daemon")
    settings, number, folder = unpack_settings(first["settings"]), int(first["number"]), Path(first["metrics"])
    logs.set_up_logging(settings.log, {"worker": number})
    multiprocess.join_folder(folder, str(number))
    engine = choose_engine(settings.engine)
    metrics = DaemonMetrics.create(engine, folder)
    shared_memory = Path(first["shared_memory"]) if first["shared_memory"] else None
    server = Server(settings, engine, metrics, worker=number, shared_memory=shared_memory)
    metrics.process.set_policy(config.policy_hash(settings), since=float(first["since"]))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    sockets = {
        name: [_inherited_socket(descriptor) for descriptor in descriptors]
        for name, descriptors in first["sockets"].items()
    }
    following = asyncio.create_task(_follow_supervisor(channel, server), name="supervisor")
    refreshing = asyncio.create_task(_keep_fresh(metrics), name="metrics")
    try:
        async with open_redis(settings, metrics.store.primary_lost, is_daemon=True) as clients:
            await server.run(clients, lambda: sockets, lambda: channel.send_soon({"ready": server.is_loaded}))
    finally:
        close_sockets(sockets)
        await cancel_and_wait(following)
        await cancel_and_wait(refreshing)


async def _keep_fresh(metrics: DaemonMetrics) -> None:
    """Set the gauges again and again, since any worker exports them."""
    while True:
        await asyncio.sleep(_REFRESH_SECONDS)
        metrics.registry.refresh()


def _inherited_socket(descriptor: int) -> socket.socket:
    inherited = socket.socket(fileno=descriptor)
    inherited.set_inheritable(False)
    inherited.setblocking(False)
    return inherited


async def _follow_supervisor(channel: Channel, server: Server) -> None:
    """Execute the commands of the supervisor, until it says "stop" or ends itself."""
    while (message := await channel.receive()) is not None:
        if message.get("do") == "stop":
            server.stop()
            continue
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            answer["result"] = _execute_command(message, server)
        except Exception as error:  # noqa: BLE001 - the supervisor gets the problem, and mail goes on
            _log.exception("a command of the supervisor failed")
            answer["problem"] = str(error) if isinstance(error, NbstreamError) else "a fault; the log has it"
        channel.send_soon(answer)
    server.stop()


def _execute_command(message: ChannelMessage, server: Server) -> str:
    match message["do"]:
        case "check":
            server.check_settings(unpack_settings(message["settings"]))
        case "apply":
            server.apply_settings(unpack_settings(message["settings"]), float(message["since"]))
        case "role":
            return server.counts_role
        case "ping":
            return LOADED if server.is_loaded else ""
    return ""
