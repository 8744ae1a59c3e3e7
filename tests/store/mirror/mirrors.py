"""Mirrors of each kind: counts of Python, a table of their own, writers and readers of a shared one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from nbstream.store.mirror.mirror import Mirror
from nbstream.store.mirror.shared_counts import SharedCounts
from nbstream.store.model.autolearn_layer import AutolearnModel
from nbstream.store.model.model import Model
from tests.engine.native import table_functions
from tests.waiting import DEADLINE_SECONDS

Kind: TypeAlias = Literal["python", "table", "writer", "reader"]
KINDS: tuple[Kind, ...] = ("python", "table", "writer", "reader")


@asynccontextmanager
async def running(mirror: Mirror) -> AsyncIterator[Mirror]:
    """Run a mirror from the moment at which it has loaded."""
    task = asyncio.create_task(mirror.run())
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await mirror.loaded.wait()
        yield mirror
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def new_mirror(model: Model | AutolearnModel, kind: Kind, folder: Path, seconds: float = 5.0) -> Mirror:
    """Return a mirror of this kind; those with a shared table are of the same daemon if the folder is the same."""
    if kind == "python":
        return Mirror(model, seconds)
    functions = table_functions()
    shared = SharedCounts(functions, folder) if kind in {"writer", "reader"} else None
    if kind == "writer":
        assert shared
        assert shared.try_to_write()
    return Mirror(model, seconds, table_functions=functions, shared=shared)


@asynccontextmanager
async def mirroring(model: Model, kind: Kind, folder: Path, seconds: float = 5.0) -> AsyncIterator[Mirror]:
    """Run a mirror of this kind, a reader beside its writer."""
    mirror = new_mirror(model, kind, folder, seconds)
    async with AsyncExitStack() as stack:
        if kind == "reader":
            await stack.enter_async_context(running(new_mirror(model, "writer", folder, seconds)))
        await stack.enter_async_context(running(mirror))
        assert mirror.role == ("alone" if kind in {"python", "table"} else kind)
        yield mirror
