"""The model that nbstream 0.7.0 wrote: every key with its content, in Redis again.

``released/0.7.0.json`` was written by that version, on the Python that it names: twelve messages that people
taught, a third of them with an encoded word in the subject, and four that were learned without people. Every
second message that people taught is signed (DKIM). The first three of them were also checked, and are remembered.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from tests.letters import letters

TOKENIZER = 5
"""The version of the tokenizer that wrote it."""

_FILE = Path(__file__).parent / "released" / "0.7.0.json"

_SIGNATURE = b"DKIM-Signature: v=1; a=rsa-sha256; d=mail.example.org; s=s2026; h=From; bh=YWJj; b=ZGVm\n"


async def restore(client: Redis) -> None:
    """Put the keys of the model into an empty Redis."""
    keys = json.loads(_FILE.read_text())["keys"]
    for key, (kind, content) in keys.items():
        await _write(client, key, kind, content)


async def _write(client: Redis, key: str, kind: str, content: Any) -> None:
    match kind:
        case "hash":
            await client.hset(key, mapping={b64decode(name): b64decode(value) for name, value in content})
        case "zset":
            await client.zadd(key, {b64decode(member): score for member, score in content})
        case "stream":
            for entry_id, fields in content:
                written: Any = {b64decode(name): b64decode(value) for name, value in fields}
                await client.xadd(key, written, id=b64decode(entry_id))
        case "string":
            await client.set(key, b64decode(content))


def taught() -> list[tuple[str, bytes]]:
    """The messages that people taught, with their labels; see above."""
    mails = [
        (label, _with_subject(raw, b"=?utf-8?q?Gr=C3=BC=C3=9Fe?= ") if number % 3 == 0 else raw)
        for number, (label, raw) in enumerate(letters(12))
    ]
    return [(label, _SIGNATURE + raw if number % 2 else raw) for number, (label, raw) in enumerate(mails)]


def autolearned() -> list[tuple[str, bytes]]:
    """The messages that were learned without people, each with an encoded word in its subject."""
    return [(label, _with_subject(raw, b"=?utf-8?b?w4RybmRl?= ")) for label, raw in letters(4, seed=9)]


def _with_subject(raw: bytes, word: bytes) -> bytes:
    return raw.replace(b"Subject: ", b"Subject: " + word, 1)
