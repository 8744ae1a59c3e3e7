"""The Lua scripts that Redis runs, each in one atomic step."""

from __future__ import annotations

from importlib import resources


def lua_script(name: str) -> str:
    """The text of the script in the file ``name`` of this folder."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
