"""What a daemon answers while it runs: reloads on request, and the questions on the control socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.daemon.tasks import cancel_and_wait
from nbstream.listeners.control_socket import ControlListener

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.daemon.reloader import Reloader
    from nbstream.engine.choice import Engine

_log = logging.getLogger(__name__)


@asynccontextmanager
async def serve_control(
    reloader: Reloader, state_dir: Path, engine: Engine, workers: Callable[[], list[int]] = list
) -> AsyncIterator[None]:
    """Reload on request, and answer on the control socket of ``state_dir``.

    ``engine`` is that of the processes that serve mail, and ``workers`` returns their ids where there are several.
    """

    async def answer_reload() -> dict[str, object]:
        return asdict(await reloader.reload())

    async def answer_policy() -> dict[str, object]:
        policy = config.policy_hash(reloader.settings)
        return {"file": reloader.file, "policy": policy, "engine": engine.name, "workers": workers()}

    task = asyncio.create_task(reloader.run(), name="reloading")
    control = ControlListener({"reload": answer_reload, "policy": answer_policy})
    try:
        await control.start(state_dir)
    except OSError as error:
        _log.warning("nbstream reload cannot ask this daemon, SIGHUP can: %s", error)
    try:
        yield
    finally:
        await control.close()
        await cancel_and_wait(task)
