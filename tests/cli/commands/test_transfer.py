"""``nbstream export`` and ``nbstream import`` as a user meets them, from one state folder to another."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from nbstream.cli.main import main
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.harness.daemon import command
from tests.harness.lessons import TOKENS, change, entry
from tests.harness.redis.redis_server import RedisServer

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PRIZE = "Subject: prize {}\n\nClaim your free prize now, winner {}\n"
LUNCH = "Subject: lunch {}\n\nShall we have lunch on Friday, Ann {}\n"


@pytest.fixture
def run(tmp_path: Path, redis_binary: Path) -> Run:  # the commands start the server themselves
    """Run a command on one of two state folders, "old" or "new"."""
    for name in ("old", "new"):
        (tmp_path / f"{name}.yaml").write_text(f"state_dir: {tmp_path / name}\n")

    return lambda where, name, *words: command(name, "-c", tmp_path / f"{where}.yaml", *words)


@pytest.fixture
def taught(run: Run, tmp_path: Path) -> Path:
    """A folder of four messages that "old" has learned: two as spam, two as ham."""
    folder = tmp_path / "mail"
    for label, template in (("spam", PRIZE), ("ham", LUNCH)):
        (folder / label).mkdir(parents=True)
        for number in range(2):
            (folder / label / f"{number}.eml").write_text(template.format(number, number))
        assert run("old", "learn", label, folder / label).returncode == 0
    return folder


def test_a_model_moves_and_what_it_learned_can_be_taken_back(run: Run, taught: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.gz"
    out = run("old", "export", file)
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout.startswith("exported counts: 2 ham, 2 spam, ")
    assert file.stat().st_mode & 0o777 == 0o600

    moved = run("new", "import", file)

    assert (moved.returncode, moved.stderr) == (0, "")
    assert moved.stdout.startswith("imported counts: 2 ham, 2 spam, ")
    paths = [taught / "spam/0.eml", taught / "ham/1.eml"]
    assert run("new", "check", "--json", *paths).stdout == run("old", "check", "--json", *paths).stdout
    assert run("new", "unlearn", taught).stdout.startswith("2 unlearned from ham, 2 unlearned from spam;")
    assert "tokens   0\n" in run("new", "status").stdout


def test_all_models_of_a_site_come_back_to_the_last_count(
    shared_redis: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The common model, what was learned automatically, and own models, with ledgers and prequential scores."""
    config, file, letter = tmp_path / "nb.yaml", str(tmp_path / "models.gz"), tmp_path / "letter.eml"
    rules = "models: [{match: '*@x.example', name: '{domain}/{local}'}]\n"
    config.write_text(f"redis: {{url: '{shared_redis.url}'}}\nstate_dir: {tmp_path}\n{rules}")

    def succeed(name: str, *words: str) -> str:
        assert main([name, "-c", str(config), *words]) == 0
        return capsys.readouterr().out

    with redis.Redis.from_url(shared_redis.url) as client:
        client.flushall()
        for number in range(6):
            letter.write_text((PRIZE if number % 2 else LUNCH).format(number, number))
            succeed("learn", "spam" if number % 2 else "ham", str(letter))
            succeed("learn", "ham", "--user", f"user{number}@x.example", str(letter))
        asyncio.run(learn_automatically(shared_redis, 3))
        before = stored(client)
        assert len([key for key in before if b"ledger:" in key]) == 6 + 6 + 3

        exported = succeed("export", file)
        client.flushall()
        imported = succeed("import", file)

        assert stored(client) == before
        assert client.zcard("nbstream:{default}:own") == 6

        client.flushall()
        content = (tmp_path / "models.gz").read_bytes()
        (tmp_path / "models.gz").write_bytes(content[: 3 * len(content) // 4])
        assert main(["import", "-c", str(config), file]) == 66
        assert not client.exists("nbstream:{default}:own")
    assert len(exported.splitlines()) == len(imported.splitlines()) == 6 + 1


async def learn_automatically(server: RedisServer, count: int) -> None:
    async with open_client(ConnectionOptions(server.url)) as client:
        for number in range(count):
            await change(Model(client, "default", 3600), f"m{number}", entry("auto-spam:0", TOKENS))


def has_content(key: bytes) -> bool:
    kind = key.rpartition(b"}:")[2]
    return any(name in kind for name in (b"counts:", b"totals", b"ledger:", b"first:"))


def stored(client: redis.Redis) -> dict[bytes, Any]:
    """All counts, totals, ledger entries and prequential scores."""
    return {
        key: client.zrange(key, 0, -1, withscores=True) if b"first:" in key else client.hgetall(key)
        for key in client.scan_iter("nbstream:*")
        if has_content(key)
    }
