"""The running listener keeps to its OpenAPI document: generated requests get the answers that it describes."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from redis.asyncio import Redis

from tests.harness.http_listener import PRIZE, open_http
from tests.harness.programs import missing

CONFIG = """
[generation]
max-examples = {examples}
[checks]
ignored_auth.enabled = false
[[operations]]
include-path = "/v1/messages/{{id}}"
parameters = {{ id = "{known}" }}
"""
# Peers on loopback need no password: there is none to ignore.

SECONDS = 100


async def test_generated_requests_get_the_documented_answers(client: Redis, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        missing("schemathesis")
    config = tmp_path / "schemathesis.toml"
    async with open_http(client, tmp_path) as http:
        known = (await http.ask("/v1/learn?label=spam", PRIZE)).json["id"]
        config.write_text(CONFIG.format(examples=os.environ.get("NBSTREAM_API_EXAMPLES", "2"), known=known))
        words = [str(program), "--config-file", str(config), "run", f"{http.url}/v1/openapi.json", "--seed", "1"]

        result = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=tmp_path
        )

        assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
        assert re.search(r"Tested: +5\b", result.stdout), result.stdout
        assert http.metric("nbstream_filter_failures_total", reason="error") == 0
