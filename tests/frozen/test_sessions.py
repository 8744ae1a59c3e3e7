"""Clients, commands, log and metrics show what was recorded; ``python -m tests.frozen`` records it again."""

from __future__ import annotations

from pathlib import Path

from tests.frozen.sessions import RECORDINGS, recorded
from tests.harness.redis.redis_server import RedisServer


def test_every_listener_and_command_answers_as_recorded(tmp_path: Path, own_redis: RedisServer) -> None:
    folder = tmp_path / "daemon"
    folder.mkdir()
    answers = recorded(folder, own_redis.socket)
    assert answers.keys() == {file.stem for file in RECORDINGS.iterdir()}
    for name, text in answers.items():
        assert text.splitlines() == (RECORDINGS / f"{name}.txt").read_text().splitlines(), name
