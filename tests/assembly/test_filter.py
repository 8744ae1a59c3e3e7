"""From settings to parts."""

from __future__ import annotations

from pathlib import Path

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.assembly.store import open_temporary_model
from tests.conftest import RedisServer


async def test_every_model_keeps_as_many_first_scores_as_the_settings_say(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    file = tmp_path / "nb.yaml"
    file.write_text(f"redis: {{url: '{shared_redis.url}'}}\nmemory: {{first_scores: 1234}}\n")
    settings = config.load_settings(file)

    async with (
        open_temporary_model(settings, "test") as temporary,
        open_one_shot_filter(settings) as (_, model),
    ):
        assert (temporary.retention.max_first_scores, model.retention.max_first_scores) == (1234, 1234)
