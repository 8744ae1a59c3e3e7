"""The Lua scripts that Redis runs, each in one atomic step: all of its writes, or none.

Redis takes nothing back where it refuses a command in the middle. A script with several writes calls
``check_writes`` of ``checks.lua`` for each of its keys before the first write.
"""

from __future__ import annotations

from importlib import resources


def lua_script(name: str) -> str:
    """The text of the script in the file ``name`` of this folder, behind that of ``checks.lua``."""
    return "".join(
        resources.files(__name__).joinpath(part).read_text(encoding="utf-8") for part in ("checks.lua", name)
    )
