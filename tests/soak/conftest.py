"""Corpora of real mail, where ``NBSTREAM_CORPORA`` names the folder of their archives; else a visible skip."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest


def archive(name: str) -> Path:
    folder = os.environ.get("NBSTREAM_CORPORA")
    if not folder or not (Path(folder) / name).is_file():
        pytest.skip(f"no {name}: set NBSTREAM_CORPORA to the folder of the archives")
    return Path(folder) / name


@pytest.fixture
def torture(tmp_path: Path) -> list[bytes]:
    """Every file of the torture archive."""
    with tarfile.open(archive("torture-mime.tar.xz")) as tar:
        tar.extractall(tmp_path / "torture", filter="data")
    return [path.read_bytes() for path in sorted((tmp_path / "torture").rglob("*")) if path.is_file()]
