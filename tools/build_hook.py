"""The step of the build that adds the native library and the shell completions to a wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface[Any]):
    """Adds what is made from the sources: the native library, where it can be built, and the completion scripts.

    A wheel with the library is for its platform, one without is for all. An editable installation uses the
    library in the source folder, which is built there.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make all of it in folders that exist until the wheel is complete."""
        sys.path.insert(0, self.root)  # the build does not run from the source folder
        from tools import build_native, completion  # noqa: PLC0415  # importable only after the line above

        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        for shell, target in completion.INSTALLED.items():
            file = Path(self._folder.name, shell)
            file.write_text(completion.script(shell), encoding="utf-8")
            build_data["shared_data"][str(file)] = target
        if version == "editable":
            _, line = build_native.try_build(root / build_native.LIBRARY, root=root)
        else:
            library = Path(self._folder.name, Path(build_native.LIBRARY).name)
            is_built, line = build_native.try_build(library, root=root, target=Path(self._folder.name, "target"))
            if is_built:
                build_data["force_include"][str(library)] = build_native.LIBRARY
                build_data["tag"] = build_native.wheel_tag(library)
                build_data["pure_python"] = False
        self.app.display_info(line)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        self._folder.cleanup()
