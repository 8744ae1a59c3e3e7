"""The Postfix of the handbook, which each test may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.postfix import Postfix, open_folder
from tests.doctor.examined_postfix import ExaminedPostfix


@pytest.fixture(scope="module")
def installed(program: Callable[[str], str]) -> Iterator[Postfix]:
    """The configuration of the handbook, which nothing runs by."""
    with open_folder() as folder:
        yield Postfix(folder, program)


@pytest.fixture
def postfix(installed: Postfix, program: Callable[[str], str], tmp_path: Path) -> Iterator[ExaminedPostfix]:
    files = [installed.folder / "etc" / name for name in ("main.cf", "master.cf")]
    before = [file.read_bytes() for file in files]
    yield ExaminedPostfix(installed, tmp_path, program)
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)
    installed.cool()
