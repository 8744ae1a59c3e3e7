"""``nbstream migrate``: what an administrator sees of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nbstream.cli.main import main
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded.locks import lock_daemon
from nbstream.store.model import signature
from tests.conftest import RedisServer
from tests.store.released_models import TOKENIZER, restore


@pytest.fixture(autouse=True)
def next_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has the tokenizer after that of 0.7.0, and can migrate models of that one."""
    monkeypatch.setattr(signature, "TOKENIZER_VERSION", TOKENIZER + 1)
    monkeypatch.setattr(signature, "FORMER_TOKENIZERS", (str(TOKENIZER),))


@pytest.fixture
def configuration(shared_redis: RedisServer, tmp_path: Path) -> Path:
    """The configuration for a model that the version before wrote."""

    async def fill() -> None:
        client = open_client(ConnectionOptions(shared_redis.url))
        await client.flushall()
        await restore(client)
        await client.aclose()

    asyncio.run(fill())
    file = tmp_path / "nb.yaml"
    file.write_text(f"redis: {{url: '{shared_redis.url}'}}\nstate_dir: '{tmp_path}'\n")
    return file


def test_an_old_model_is_migrated_once_and_can_go_back(
    configuration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "-c", str(configuration)]) == 78
    assert "run `nbstream migrate`" in capsys.readouterr().err

    assert main(["migrate", "-c", str(configuration)]) == 0
    assert capsys.readouterr().out == "model 'default' is migrated: all that was learned is kept\n"
    assert main(["migrate", "-c", str(configuration), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"model": "default", "changed": False, "back": False}
    assert main(["status", "-c", str(configuration)]) == 0
    assert "ham" in capsys.readouterr().out

    assert main(["migrate", "-c", str(configuration), "--back"]) == 0
    assert "is one of the version before again" in capsys.readouterr().out
    assert main(["status", "-c", str(configuration)]) == 78


def test_beside_a_running_daemon_it_is_refused(
    configuration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock_daemon(tmp_path):
        assert main(["migrate", "-c", str(configuration)]) == 75
    assert "runs on state_dir" in capsys.readouterr().err
