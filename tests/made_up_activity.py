"""Activity, made up and written as a daemon does it."""

from __future__ import annotations

import random
import time
from pathlib import Path

from nbstream import __version__, config
from nbstream.assembly.store import make_model, open_running_redis
from nbstream.policy.verdict import Verdict
from nbstream.store.activity import ActivityCounter, ActivityWriter, ProcessStatus


async def add_activity(config_file: Path, minutes: int = 60) -> None:
    """Count checks in the last minutes, as an office has them, in the Redis of a running daemon."""
    settings, draw, now = config.load_settings(config_file), random.Random(4), time.time()
    async with open_running_redis(settings) as clients:
        model = make_model(settings, clients.client)
        counter = ActivityCounter()
        status = ProcessStatus("mail.example.org", 0, __version__, is_loaded=True, lag_seconds=0.0)
        writer = ActivityWriter(clients.client, model.keys, counter, "made up", lambda: status, lambda _: None)
        for ago in range(minutes):
            for verdict, mean in ((Verdict.HAM, 14), (Verdict.UNSURE, 1.5), (Verdict.SPAM, 9)):
                for _ in range(round(mean * draw.uniform(0.5, 1.5))):
                    counter.count(verdict, draw.lognormvariate(-6, 0.5))
            await writer.write(now - 60 * ago)
        await writer.leave()
