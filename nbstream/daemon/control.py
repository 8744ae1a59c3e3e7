"""What a daemon answers while it runs: reloads on request, and the questions on the control socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbstream import __version__, config
from nbstream.addresses import TcpAddress
from nbstream.server.control_socket import ControlListener
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.addresses import ListenAddress
    from nbstream.daemon.reloader import Reloader
    from nbstream.engine.choice import Engine

_log = logging.getLogger(__name__)


async def _no_workers() -> Mapping[int, str | None]:
    return {}


@asynccontextmanager
async def serve_control(
    reloader: Reloader,
    state_dir: Path,
    engine: Engine,
    http_address: Callable[[], ListenAddress | None],
    worker_roles: Callable[[], Awaitable[Mapping[int, str | None]]] = _no_workers,
) -> AsyncIterator[None]:
    """Reload on request, and answer on the control socket of ``state_dir``.

    ``engine`` is that of the processes that serve mail. ``http_address`` returns where the HTTP listener listens,
    with the port that the system chose; None where it does not. Where there are several processes,
    ``worker_roles`` returns the role that each has with the counts by its id, None for one that does not answer.
    """

    async def answer_reload() -> dict[str, object]:
        return asdict(await reloader.reload())

    async def answer_pending() -> dict[str, object]:
        return asdict(await reloader.pending())

    async def answer_policy() -> dict[str, object]:
        policy, roles = config.policy_hash(reloader.settings), await worker_roles()
        address = http_address()
        return {
            "file": reloader.file,
            "policy": policy,
            "engine": engine.name,
            "version": __version__,
            "workers": list(roles),
            "roles": list(roles.values()),
            "http": [address.host, address.port] if isinstance(address, TcpAddress) else None,
        }

    task = asyncio.create_task(reloader.run(), name="reloading")
    control = ControlListener({"reload": answer_reload, "pending": answer_pending, "policy": answer_policy})
    try:
        await control.start(state_dir)
    except OSError as error:
        _log.warning("nbstream reload cannot ask this daemon, SIGHUP can: %s", error)
    try:
        yield
    finally:
        await control.close()
        await cancel_and_wait(task)
