"""The commands, one module for each; a module is imported only when its command runs."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def import_command(name: str) -> ModuleType:
    """Return a command's module.

    Garbage collection waits meanwhile, since what is imported is no garbage; and numpy starts no threads, which
    would only wait for work.
    """
    if module := sys.modules.get(f"{__name__}.{name}"):
        return module
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    try:
        return importlib.import_module(f"{__name__}.{name}")
    finally:
        gc.freeze()
        gc.enable()
