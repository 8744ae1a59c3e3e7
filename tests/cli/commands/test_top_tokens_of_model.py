"""The top tokens of ``nbstream model show`` as a user meets them, over counts in a real Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from redis import Redis

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.cli.main import main
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from tests.harness.lessons import NOTE
from tests.harness.redis.redis_server import RedisServer

# Label, weight in thousandths of a message, tokens. The model's sums: ham 5.5, spam 4.5, of 5 tokens.
TAUGHT = [
    ("spam", 1000, [b"word:prize", b"word:offer", b"word:the"]),
    ("spam", 500, [b"word:prize", b"word:offer", b"word:the"]),
    ("ham", 1000, [b"word:lunch", b"word:the"]),
    ("ham", 1000, [b"word:lunch", b"word:the"]),
    ("ham", 500, [b"word:lunch", b"word:the", b"word:\x1b[2J\xff"]),
]


class TopTokens:
    """Runs the command in this process on a model of its own, and gives back what it printed."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._config = folder / "nb.yaml"
        self._capsys = capsys
        self.configure("{}")

    def configure(self, model: str) -> None:
        self._config.write_text(f"redis: {{url: '{self._url}'}}\nmodel: {model}\n")

    def teach(self) -> None:
        asyncio.run(self._teach())

    async def _teach(self) -> None:
        client = open_client(ConnectionOptions(self._url))
        model = Model(client, "default", ledger_seconds=3600)
        await model.open()
        for number, (label, weight, tokens) in enumerate(TAUGHT):
            entry = LedgerEntry(
                f"v{number}", label, weight, tuple(tokens), 1.5, "test", "nobody", 0.0, ((SCORE_BINS[0], 9000),)
            )
            await model.commit_lesson(f"m{number}", None, entry, NOTE)
        await client.aclose()

    def __call__(self, *arguments: str) -> tuple[str, str]:
        assert main(["model", "show", "-c", str(self._config), *arguments]) == 0
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    def json(self, label: str, *arguments: str) -> Sequence[str]:
        out, _ = self(*arguments, "--json")
        return [line["token"] for line in json.loads(out)["strongest"][label]]


@pytest.fixture
def top_tokens(shared_redis: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> TopTokens:
    with Redis(unix_socket_path=str(shared_redis.socket)) as client:
        client.flushall()
    return TopTokens(shared_redis.url, tmp_path, capsys)


def test_the_strongest_come_first_and_equal_ones_by_name(top_tokens: TopTokens) -> None:
    top_tokens.teach()

    assert top_tokens.json("spam") == [
        "word:offer",
        "word:prize",
        "word:the",
        "word:\x1b[2J\ufffd",
        "word:lunch",
    ]
    assert top_tokens.json("ham", "-k", "2") == [
        "word:lunch",
        "word:\x1b[2J\ufffd",
    ]
