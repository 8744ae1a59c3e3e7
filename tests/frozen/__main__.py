"""Record the sessions again: ``python -m tests.frozen``. The commit says what changed, and why."""

import tempfile
from pathlib import Path

from nbstream.store.embedded import find_servers
from tests.frozen.sessions import RECORDINGS, recorded
from tests.harness.redis.redis_server import RedisServer

with tempfile.TemporaryDirectory() as name:
    redis_folder, folder = Path(name, "redis"), Path(name, "daemon")
    redis_folder.mkdir()
    folder.mkdir()
    server = RedisServer(find_servers()[0], redis_folder)
    server.start()
    try:
        for recording, text in recorded(folder, server.socket).items():
            (RECORDINGS / f"{recording}.txt").write_text(text)
    finally:
        server.stop()
