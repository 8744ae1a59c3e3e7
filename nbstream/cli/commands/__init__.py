"""The commands of the command line, one module each; nothing here is imported before its command is run."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def import_command(name: str) -> ModuleType:
    """A command, in four fifths of the time: what is imported is no garbage, and threads of numpy would spin."""
    if known := sys.modules.get(f"{__name__}.{name}"):
        return known
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    try:
        return importlib.import_module(f"{__name__}.{name}")
    finally:
        gc.freeze()
        gc.enable()
