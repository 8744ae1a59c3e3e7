"""``nbstream.daemon.server_parts``."""

from __future__ import annotations

from pathlib import Path

from redis.asyncio import Redis
from redis.crc import key_slot

from nbstream.daemon.assembly.store import RedisClients
from nbstream.daemon.config import Settings
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server_parts import ServerParts
from nbstream.engine.choice import PYTHON


def test_each_follower_of_a_process_reads_one_slot_of_a_cluster(client: Redis, tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "state_dir": str(tmp_path),
            "redis": {"cluster": ["node1.example.org:7000"]},
            "correspondents": {},
            "relay": {"next_hop": f"maildir:{tmp_path / 'Maildir'}"},
        }
    )

    parts = ServerParts(settings, RedisClients(client, client), DaemonMetrics.create(PYTHON), PYTHON)

    slots = [
        {key_slot(part.stream.encode()) for part in follower.followed}
        for follower in (parts.follower, *parts.bucket_followers)
    ]
    assert [len(of_follower) for of_follower in slots] == [1] * 17
    assert len(set().union(*slots)) == 17
