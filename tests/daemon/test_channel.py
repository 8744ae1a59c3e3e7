"""The wire between a parent and a worker."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nbstream import config
from nbstream.daemon.channel import Channel, pack_settings, unpack_settings


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Channel, socket.socket]]:
    """A channel, and the other end as a bare socket."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    channel = await Channel.over_socket(ours)
    yield channel, theirs
    await channel.close()
    theirs.close()


async def test_a_message_is_one_line(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends

    await channel.send({"do": "stop", "text": "two\nlines"})

    assert other.recv(1000) == b'{"do": "stop", "text": "two\\nlines"}\n'


async def test_messages_arrive_in_turn_and_then_the_end(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends
    other.sendall(b'{"a": 1}\n{"b"')
    assert await channel.receive() == {"a": 1}

    other.sendall(b": 2}\n")
    other.shutdown(socket.SHUT_WR)

    assert await channel.receive() == {"b": 2}
    assert await channel.receive() is None


@pytest.mark.parametrize("bytes_", [b"{\n", b"[1]\n", b"1\n", b"\xff\n", b"{}", b"\n"])
async def test_what_is_no_message_is_the_end(ends: tuple[Channel, socket.socket], bytes_: bytes) -> None:
    channel, other = ends
    other.sendall(bytes_)
    other.shutdown(socket.SHUT_WR)

    assert await channel.receive() is None


async def test_a_message_sent_just_before_the_end_arrives(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends

    channel.send_soon({"failed": "why"})
    await channel.close()

    assert other.makefile("rb").read() == b'{"failed": "why"}\n'


def test_settings_are_the_same_at_the_other_end_secrets_and_file_included(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pass word\n")
    file = tmp_path / "nb.yaml"
    file.write_text(
        f"listeners: {{http: {{password_file: {tmp_path / 'secret'}}}}}\n"
        "recipients: [{match: '*@a.example', actions: {spam: 'redirect:b@a.example'}}]\n"
        "verdict: {reject: {false_positive_cost: 999}}\n"
    )
    settings = config.load_settings(file)

    unpacked = unpack_settings(pack_settings(settings))

    assert (unpacked, unpacked.source) == (settings, file)
    assert unpacked.listeners.http
    assert unpacked.listeners.http.password
    assert unpacked.listeners.http.password.get_secret_value() == "pass word"
    assert config.policy_hash(unpacked) == config.policy_hash(settings)


async def test_who_sends_on_a_closed_channel_gets_a_connection_error() -> None:
    """A worker that is killed while its supervisor asks it to reload: the loop's own error is no such error."""
    ours, theirs = socket.socketpair()
    channel = await Channel.over_socket(ours)
    theirs.close()
    assert await channel.receive() is None
    await channel.close()

    with pytest.raises(ConnectionError):
        await channel.send({"do": "reload"})
    channel.send_soon({"do": "stop"})  # does nothing
