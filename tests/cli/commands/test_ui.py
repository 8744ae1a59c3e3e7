"""``nbstream ui``: the link that it prints gives a role once, and what it says where there is no page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.cli.main import main
from nbstream.daemon.status import link_note, link_url
from nbstream.file_locks import lock_daemon
from nbstream.store.logins import PageSessionStore
from nbstream.store.model.keys import ModelKeys
from nbstream.system_users import current_user
from tests.harness.redis.redis_server import RedisServer


@pytest.fixture
def config(shared_redis: RedisServer, tmp_path: Path) -> Path:
    path = tmp_path / "nb.yaml"
    path.write_text(f"state_dir: {tmp_path}\nredis: {{url: '{shared_redis.url}'}}\nmodel: {{name: links}}\n")
    return path


@pytest.mark.parametrize(("words", "role"), [(["ui"], "teach"), (["ui", "--read-only"], "read")])
def test_the_link_gives_its_role_once(
    config: Path,
    tmp_path: Path,
    shared_redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    role: str,
) -> None:
    with lock_daemon(tmp_path):
        assert main([*words, "-c", str(config)]) == 0

    url, _, token = capsys.readouterr().out.strip().rpartition("=")
    assert url == "http://127.0.0.1:11334/ui/login?link"

    async def use() -> None:
        async with Redis.from_url(shared_redis.url) as client:
            store = PageSessionStore(client, ModelKeys("links"))
            login = await store.use_link(token)
            assert login is not None
            assert (login.role, login.name) == (role, current_user())
            assert await store.use_link(token) is None

    asyncio.run(use())


def test_without_a_daemon_there_is_no_link(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "-c", str(config)]) == 69
    printed = capsys.readouterr()
    assert (printed.out, "no daemon runs" in printed.err) == ("", True)


@pytest.mark.parametrize(
    ("address", "url", "forwarding"),
    [
        (TcpAddress("127.0.0.1", 11334), "http://127.0.0.1:11334/x", "-L 11334:127.0.0.1:11334 "),
        (TcpAddress("0.0.0.0", 80), "http://127.0.0.1:80/x", "-L 80:127.0.0.1:80 "),
        (TcpAddress("::", 80), "http://[::1]:80/x", "-L 80:[::1]:80 "),
        (TcpAddress("192.0.2.1", 80), "http://192.0.2.1:80/x", "-L 80:192.0.2.1:80 "),
        (UnixAddress(Path("/run/nb/h.sock")), "http://localhost:11334/x", "-L 11334:/run/nb/h.sock "),
        (TcpAddress("0:0::0", 80), "http://[::1]:80/x", "-L 80:[::1]:80 "),
        (TcpAddress("", 80), "http://127.0.0.1:80/x", "-L 80:127.0.0.1:80 "),
        (TcpAddress("mail.example", 80), "http://mail.example:80/x", "-L 80:mail.example:80 "),
    ],
    ids=str,
)
def test_the_link_can_be_reached_as_the_note_says(
    address: TcpAddress | UnixAddress, url: str, forwarding: str
) -> None:
    assert link_url(address, "/x") == url
    assert forwarding in link_note(address)
