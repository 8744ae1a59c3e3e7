"""Real mail to measure on, where ``NBSTREAM_CORPORA`` names the folder of their archives; else a visible skip."""

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


def unpack(name: str, folder: Path) -> Path:
    """The folder that the archive was unpacked into."""
    with tarfile.open(archive(name)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def torture_messages(folder: Path) -> list[bytes]:
    """Test messages of MIME libraries: broken, nested, in odd charsets."""
    unpacked = unpack("torture-mime.tar.xz", folder)
    return [path.read_bytes() for path in sorted(unpacked.rglob("*")) if path.is_file()]


def trec_stream(folder: Path, limit: int) -> list[tuple[str, bytes]]:
    """The first messages of the TREC 2007 public spam corpus with their labels, in stream order."""
    unpacked = unpack("trec07p-20k.tar.xz", folder) / "trec07p-20k"
    lines = (unpacked / "index.tsv").read_text().splitlines()[:limit]
    return [(label, (unpacked / path).read_bytes()) for label, path in (line.split("\t") for line in lines)]
