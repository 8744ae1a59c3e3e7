"""A real daemon whose model stores keyed hashes: who has its Redis and its state folder finds no word of mail."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from nbstream.store.compression import decompress_first
from nbstream.store.model.ledger import unpack_names
from tests.harness.daemon import DaemonProcess, command, send, wait_until, write_config
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

SPAM, HAM, READER = "spam@nbstream.invalid", "ham@nbstream.invalid", "ann@example.org"
WORDS = ("quetzalcoatl", "xylophonist", "brouhaha", "kerfuffle")
"""Words of a taught and of a checked message: of their headers, texts and links, and in no other file."""

MODEL = "{private_tokens: true, min_learned: 10}"


def letter(number: int) -> bytes:
    head = (
        f"Message-ID: <{number}@kerfuffle.example>\nFrom: xylophonist@example.org\nTo: you@example.net\n"
        "Subject: Quetzalcoatl\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n"
    )
    return f"{head}\nbrouhaha at http://quetzalcoatl.example/brouhaha number{number}\n".encode()


@pytest.fixture
def redis(own_redis: RedisServer) -> Any:
    with Redis(unix_socket_path=str(own_redis.socket)) as client:
        yield client


def config(tmp_path: Path, own_redis: RedisServer, **settings: str) -> Path:
    chosen = {"redis": f"{{url: '{own_redis.url}'}}", "model": MODEL, "memory": "{envelope: false}", **settings}
    return write_config(tmp_path, **chosen)


def taught(daemon: DaemonProcess) -> None:
    send(daemon, [(SPAM if label == "spam" else HAM, raw) for label, raw in samples(60)])
    send(daemon, [(SPAM, letter(number)) for number in range(20)])


def delivered(daemon: DaemonProcess, raw: bytes) -> tuple[bytes, str]:
    """A message as its reader has it, and its id."""
    folder = daemon.config.parent / "state" / "Maildir" / "new"
    before = set(folder.glob("*"))
    send(daemon, [(READER, raw)])
    (arrived,) = set(folder.glob("*")) - before
    found = re.search(rb"id=([a-z2-7]{24})\r?\n", arrived.read_bytes())
    assert found
    return arrived.read_bytes(), found[1].decode()


def stored_values(redis: Any) -> Iterator[bytes]:
    """Everything in Redis, names of keys as well, and what is compressed there as it was before."""
    for key in redis.scan_iter("*"):
        yield key
        match redis.type(key):
            case b"string":
                yield redis.get(key)
            case b"hash":
                for pair in redis.hgetall(key).items():
                    yield from pair
            case b"zset":
                yield from redis.zrange(key, 0, -1)
            case b"stream":
                for _, fields in redis.xrange(key):
                    for pair in fields.items():
                        yield from pair
            case other:
                raise AssertionError(f"{key!r} is a {other!r}")


def readable(value: bytes) -> bytes:
    """The value, and what a reader of the formats gets out of it."""
    with suppress(ValueError):
        return value + unpack_names(value)
    try:
        content, rest = decompress_first(value)
    except ValueError:
        return value
    return value + content + rest


def words_in(content: bytes) -> list[str]:
    return [word for word in WORDS if word.encode() in content.lower()]


def own_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """All files of the site, those of Redis as well, but the mail that was delivered."""
    for path in folder.rglob("*"):
        if path.is_file() and "Maildir" not in path.parts:
            yield path, path.read_bytes()


def test_redis_and_the_state_folder_have_no_word_and_a_message_at_hand_has_its_own(
    tmp_path: Path, own_redis: RedisServer, redis: Any
) -> None:
    file = tmp_path / "letter.eml"
    file.write_bytes(letter(1000))
    redis.config_set("appendonly", "yes")
    with DaemonProcess(config(tmp_path, own_redis, workers="2")) as daemon:
        taught(daemon)
        message, message_id = delivered(daemon, file.read_bytes())
        wait_until(lambda: redis.exists(f"nbstream:{{default}}:checked:{message_id}"))

        # The message at hand: the header field that it was delivered with, and the command on its file.
        clues = str(message_from_bytes(message)["X-Nbstream-Clues"])
        assert words_in(clues.encode())
        of_file = command("explain", "-c", daemon.config, file)
        assert words_in(of_file.stdout.encode()) == list(WORDS), (of_file.stdout, of_file.stderr)
        assert "keyed hashes" not in of_file.stdout

        # What is stored: nobody reads a word of it, whatever is asked.
        stored = list(stored_values(redis))
        assert any(b"body:#" in readable(value) for value in stored)
        assert [words_in(readable(value)) for value in stored if words_in(readable(value))] == []
        asked = (
            ("explain", message_id),
            ("model", "show"),
            ("history",),
            ("status",),
            ("explain", "--json", message_id),
        )
        shown = [command(*words, "-c", daemon.config) for words in asked]
        assert [result.returncode for result in shown] == [0] * len(shown), shown
        assert [words_in(f"{result.stdout}{result.stderr}".encode()) for result in shown] == [[]] * len(shown)
        assert "keyed hashes in place of words" in shown[0].stdout
        assert "keyed hashes in place of words" in shown[1].stderr
        assert "text, hashed" in shown[0].stdout
        answers = [daemon.get(path)[1] for path in ("/metrics", f"/v1/messages/{message_id}")]
        assert [words_in(answer.encode()) for answer in answers] == [[], []]
        exported = command("export", "-c", daemon.config, tmp_path / "model.gz")
        assert exported.returncode == 0, exported.stderr
        assert not words_in(gzip.decompress((tmp_path / "model.gz").read_bytes()))
        assert not words_in(json.dumps(daemon.events).encode())
        assert daemon.stop() == 0

    assert any(path.suffix == ".aof" for path, _ in own_files(tmp_path))
    assert [path for path, content in own_files(tmp_path) if words_in(content)] == [file]


def test_a_lost_key_stops_the_daemon_until_it_is_back_and_another_model_begins_anew(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    path = config(tmp_path, own_redis)
    key, kept = tmp_path / "state" / "private-tokens.key", tmp_path / "kept.key"
    file = tmp_path / "letter.eml"
    file.write_bytes(letter(1000))
    with DaemonProcess(path) as daemon:
        taught(daemon)
        assert daemon.stop() == 0
    before = command("check", "-c", path, "--json", file)
    key.rename(kept)

    refused = command("serve", "-c", path)
    assert refused.returncode == 78
    assert "model.private_tokens and the key file that wrote it" in refused.stderr

    # Rotation: a new name and a new key, taught anew; the old model stays as it is.
    renamed = path.with_name("new.yaml")
    renamed.write_text(path.read_text().replace("{private_tokens", "{name: second, private_tokens"))
    learned = command("learn", "spam", "-c", renamed, file)
    assert (learned.returncode, "1 learned" in learned.stdout) == (0, True), learned.stderr

    kept.replace(key)
    again = command("check", "-c", path, "--json", file)
    assert (again.returncode, again.stdout) == (before.returncode, before.stdout)
    in_words = command("check", "-c", _in_words(path), file)
    assert in_words.returncode == 78
    assert "has private tokens under the key" in in_words.stderr


def _in_words(path: Path) -> Path:
    changed = path.with_name("words.yaml")
    changed.write_text(path.read_text().replace("private_tokens: true, ", ""))
    return changed
