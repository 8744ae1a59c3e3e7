"""The tests of a folder of the package stand in the folder of the same name."""

from __future__ import annotations

from pathlib import Path

import nbstream

PACKAGE, TESTS = Path(nbstream.__file__).parent, Path(__file__).parent

# Programs from end to end, and what tests use.
OF_THEIR_OWN = {
    "benchmarks", "browser", "deploy", "frozen", "fuzz", "handbook", "integration", "soak",
    "tools",
}  # fmt: skip


def test_the_folders_of_tests_are_those_of_the_package() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}

    assert {
        str(folder)
        for folder in folders
        if folder.parts[0] not in OF_THEIR_OWN and not (PACKAGE / folder).is_dir()
    } == set()
