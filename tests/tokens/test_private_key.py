"""The key of private tokens: made once for its owner alone, and refused where it is no key."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nbstream.errors import ConfigError
from nbstream.tokens.private_tokens import read_or_make_key


def test_a_missing_key_is_made_for_its_owner_alone_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "state" / "private-tokens.key"
    key = read_or_make_key(file, "model.private_tokens")
    assert (len(key), file.stat().st_mode & 0o777) == (32, 0o600)
    assert read_or_make_key(file, "model.private_tokens") == key
    assert list(file.parent.iterdir()) == [file]  # no draft is left


def test_those_who_make_it_at_once_have_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(read_or_make_key, [tmp_path / "key"] * 8, ["x"] * 8))
    assert len(keys) == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"0" * 63, b"0" * 65, b"g" * 64, b"\xff" * 64, b"0" * 64 + b"\n\n"])
def test_a_file_that_is_no_key_is_refused_and_left(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        read_or_make_key(file, "model.private_tokens")
    assert file.read_bytes() == content


def test_a_key_that_cannot_be_made_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be read or made"):
        read_or_make_key(tmp_path / "file" / "key", "model.private_tokens")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_key_that_root_makes_belongs_to_whom_the_folder_belongs(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1235)
    read_or_make_key(tmp_path / "key", "x")
    status = (tmp_path / "key").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 1235, 0o600)
