"""The folder in shared memory: private, removed at the end, and what a killed supervisor left is removed too."""

from __future__ import annotations

import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nbstream.daemon.shared_memory import open_shared_folder

LEAVE_A_FOLDER = """
import os, sys
from pathlib import Path
from nbstream.daemon.shared_memory import open_shared_folder
with open_shared_folder(Path(sys.argv[1])) as folder:
    (folder / "counts").mkdir()
    (folder / "counts" / "current").write_bytes(b"x")
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_the_folder_is_private_and_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    with open_shared_folder(tmp_path) as folder:
        assert folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "counts").mkdir()
        (folder / "counts" / "current").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_supervisor_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    words = [sys.executable, "-c", LEAVE_A_FOLDER, str(tmp_path)]
    left = Path(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout.strip())
    assert (left / "counts" / "current").exists()
    with open_shared_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert folder != left


def test_the_folder_of_a_supervisor_that_runs_stays(tmp_path: Path) -> None:
    with open_shared_folder(tmp_path) as first, open_shared_folder(tmp_path) as second:
        assert set(tmp_path.iterdir()) == {first, second}


def test_links_and_files_of_that_name_are_left_alone(tmp_path: Path) -> None:
    target, root = tmp_path / "target", tmp_path / "root"
    target.mkdir()
    root.mkdir()
    (root / "nbstream-link").symlink_to(target)
    (root / "nbstream-file").write_bytes(b"")
    with open_shared_folder(root):
        pass
    assert {file.name for file in root.iterdir()} == {"nbstream-file", "nbstream-link"}
    assert target.is_dir()


def test_without_shared_memory_there_is_none_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), open_shared_folder(tmp_path / "missing") as folder:
        assert folder is None
    assert "keeps its own copy" in caplog.text
