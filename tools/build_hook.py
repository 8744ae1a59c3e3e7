"""The step of the build that writes the shell completions into the wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompletionHook(BuildHookInterface[Any]):
    """Adds a completion script for each shell to the data that a wheel installs below the prefix."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the scripts into a folder that lasts until the wheel is whole."""
        sys.path.insert(0, self.root)  # the build runs apart from the source
        from tools.completion import INSTALLED, script  # noqa: PLC0415  # found only now

        self._folder = tempfile.TemporaryDirectory()
        for shell, target in INSTALLED.items():
            file = Path(self._folder.name, shell)
            file.write_text(script(shell))
            build_data["shared_data"][str(file)] = target

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        self._folder.cleanup()
