"""``nbstream learn --imap`` from a real Dovecot, over TLS."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from nbstream.errors import NbstreamError
from nbstream.filter.lesson_groups import GROUP_SIZE
from nbstream.server import imap
from nbstream.training.imap import read_folders
from nbstream.training.template import parse_imap_url
from tests.harness.daemon import command, wait_until
from tests.harness.dovecot import DELETED
from tests.harness.imap_server import ImapServer
from tests.harness.postfix import open_folder
from tests.harness.programs import needs_root
from tests.harness.redis.redis_server import RedisServer
from tests.harness.scripted_imap_server import Server


@pytest.fixture(scope="module")
def running(program: Callable[[str], str]) -> Iterator[ImapServer]:
    program("dovecot")
    needs_root()
    with open_folder() as folder:
        server = ImapServer(folder, program)
        with server.running():
            yield server


@pytest.fixture
def server(running: ImapServer) -> ImapServer:
    """With three messages in Junk, and two in the folder whose name is not ASCII."""
    running.put("Junk", *(message("prize", number) for number in range(3)))
    running.put(DELETED, *(message("lunch", number) for number in range(2)))
    return running


def message(word: str, number: int) -> bytes:
    return f"Subject: {word}\nMessage-ID: <{word}{number}@example.org>\n\nThe {word} number {number}.\n".encode()


class Learn:
    """The command with a model of its own."""

    def __init__(self, redis: RedisServer, server: ImapServer, folder: Path) -> None:
        self._config = folder / "nb.yaml"
        self._config.write_text(
            f"redis: {{url: '{redis.url}'}}\nmodel: {{name: {folder.name.lower()[:40]}}}\n"
            f"state_dir: {folder / 'state'}\n"
        )
        self._password_file = folder / "password"
        self._password_file.write_text("secret\n")
        self._ca_file = server.certificates.authority

    def words(self, label: str, *options: str | Path) -> list[str | Path]:
        return ["learn", label, "-c", self._config, "--ca-file", self._ca_file, *options]

    def __call__(self, label: str, *options: str | Path, code: int = 0) -> tuple[str, str]:
        done = command(*self.words(label, "--password-file", self._password_file, *options))
        assert done.returncode == code, done
        return done.stdout, done.stderr


@pytest.fixture
def learn(shared_redis: RedisServer, server: ImapServer, tmp_path: Path) -> Learn:
    return Learn(shared_redis, server, tmp_path)


def test_folders_are_learned_and_nothing_counts_twice(learn: Learn, server: ImapServer) -> None:
    junk, lunch = server.url("Junk"), server.url("Gel%C3%B6scht", tls=False)

    assert learn("spam", "--imap", junk)[0].startswith("3 learned as spam; ")
    assert learn("ham", "--imap", lunch, "--imap", server.url("Archive"))[0].startswith("2 learned as ham; ")
    assert learn("spam", "--imap", junk)[0].startswith("3 already learned as spam; ")


def test_starttls(server: ImapServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap, "_is_on_this_machine", lambda _: False)
    folder = parse_imap_url(server.url("Junk", tls=False))
    for ca_file, count, error in (
        (server.certificates.authority, 3, []),
        (None, 0, [f"{folder}: the certificate of the server cannot be trusted: "]),
    ):
        errors: list[NbstreamError] = []
        messages = list(read_folders([folder], {folder.account: "secret"}, ca_file, errors))
        assert len(messages) == count
        assert [str(one)[: len(start)] for one, start in zip(errors, error, strict=True)] == error


# A server that leaves


def answers(raws: Mapping[int, bytes], windows: int) -> Iterator[bytes]:
    """What a server sends that has these messages, by UID, up to the end of some windows of 200 messages."""
    yield b"* OK hello\r\n"
    yield b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n%b OK done\r\n"
    yield b"%b OK done\r\n"
    yield b"* OK [UIDVALIDITY 7] valid\r\n%b OK done\r\n"
    yield b"* CAPABILITY IMAP4rev1\r\n%b OK done\r\n"
    uids = list(raws)
    yield b"* SEARCH " + " ".join(map(str, uids)).encode() + b"\r\n%b OK done\r\n"
    for window in range(windows):
        some = uids[200 * window : 200 * window + 200]
        sizes = (b"* 1 FETCH (UID %d RFC822.SIZE %d)\r\n" % (uid, len(raws[uid])) for uid in some)
        contents = (b"* 1 FETCH (UID %d BODY[] {%d}\r\n%b)\r\n" % (uid, len(raws[uid]), raws[uid]) for uid in some)
        yield b"".join(sizes) + b"%b OK done\r\n"
        yield b"".join(contents) + b"%b OK done\r\n"


@pytest.mark.parametrize(("ending", "code"), [(b"...", 130), (b"", 66)], ids=["Ctrl-C", "the server leaves"])
def test_the_next_run_learns_the_rest(shared_redis: RedisServer, tmp_path: Path, ending: bytes, code: int) -> None:
    config, password_file = tmp_path / "nb.yaml", tmp_path / "password"
    config.write_text(f"redis: {{url: '{shared_redis.url}'}}\nmodel: {{name: m{code}}}\nstate_dir: {tmp_path}\n")
    password_file.write_text("secret\n")
    raws = {uid: message("prize", uid) for uid in range(1, 601)}

    def learned() -> int:
        with Redis(unix_socket_path=str(shared_redis.socket)) as redis:
            count: Any = redis.hget(f"nbstream:{{m{code}}}:totals", "messages:spam")
            return int(count or 0)

    server = Server([*answers(raws, 2), ending])
    words = ("learn", "spam", "-c", config, "--password-file", password_file, "--imap")
    url = f"{server.account}/Junk"
    program = ["env", "--default-signal=INT", sys.executable, "-m", "nbstream.cli"]
    with server.running(), subprocess.Popen([*program, *map(str, words), url]) as process:
        if ending:
            wait_until(lambda: learned() >= GROUP_SIZE)
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == code
    count = learned()
    assert count == (GROUP_SIZE if ending else 400)

    again = Server(list(answers(raws, 3)), server.account.port)
    with again.running():
        done = command(*words, url)
    assert done.stdout.startswith(f"{count} already learned as spam, {600 - count} learned as spam; ")
    assert learned() == 600
