"""Real mail to measure on. Tests skip visibly unless ``NBSTREAM_CORPORA`` names the folder of its archives."""

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


def unpack(archive: Path, folder: Path) -> Path:
    """The folder that the archive was unpacked into; nothing of it can be written beside that."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # Debian 12 has Python 3.11.2, without it
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)
    return folder


def torture_messages(folder: Path) -> list[bytes]:
    """Test messages of MIME libraries: broken, nested, in odd charsets."""
    unpacked = unpack(archive("torture-mime.tar.xz"), folder)
    return [path.read_bytes() for path in sorted(unpacked.rglob("*")) if path.is_file()]


def trec_stream(folder: Path, limit: int) -> list[tuple[str, bytes]]:
    """The first messages of the TREC 2007 public spam corpus with their labels, in stream order."""
    unpacked = unpack(archive("trec07p-20k.tar.xz"), folder) / "trec07p-20k"
    lines = (unpacked / "index.tsv").read_text().splitlines()[:limit]
    return [(label, (unpacked / path).read_bytes()) for label, path in (line.split("\t") for line in lines)]
