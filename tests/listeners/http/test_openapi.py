"""The running door keeps to its OpenAPI document: it answers generated requests as the document says."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from redis.asyncio import Redis

from tests.conftest import missing
from tests.listeners.http.http_listener import PRIZE, open_http

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


async def test_generated_requests_find_no_breach(client: Redis, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        missing("schemathesis")
    config = tmp_path / "schemathesis.toml"
    async with open_http(client, tmp_path) as door:
        known = (await door.ask("/v1/learn?label=spam", PRIZE)).json["id"]
        config.write_text(CONFIG.format(examples=os.environ.get("NBSTREAM_API_EXAMPLES", "30"), known=known))
        words = [str(program), "--config-file", str(config), "run", f"{door.url}/v1/openapi.json", "--seed", "1"]

        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=tmp_path
        )

        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        assert re.search(r"Tested: +5\b", done.stdout), done.stdout
        assert door.metric("nbstream_filter_failures_total", reason="error") == 0
