"""The step of the build that adds the shell completions to the wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompletionHook(BuildHookInterface[Any]):
    """Adds the completion script of each shell to the data that a wheel installs below its prefix."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the scripts into a folder that exists until the wheel is complete."""
        sys.path.insert(0, self.root)  # the build does not run from the source folder
        from tools.completion import INSTALLED, script  # noqa: PLC0415  # importable only after the line above

        self._folder = tempfile.TemporaryDirectory()
        for shell, target in INSTALLED.items():
            file = Path(self._folder.name, shell)
            file.write_text(script(shell), encoding="utf-8")
            build_data["shared_data"][str(file)] = target

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of the scripts."""
        self._folder.cleanup()
