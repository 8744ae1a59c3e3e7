"""The addresses of listeners and the access to their sockets, as the configuration has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.daemon.config import Settings, load_settings
from nbstream.errors import ConfigError
from nbstream.settings.values import MAX_SOCKET_PATH, read_listen_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:1783", TcpAddress("127.0.0.1", 1783)),
        ("[::1]:1783", TcpAddress("::1", 1783)),
        ("unix.example.org:1783", TcpAddress("unix.example.org", 1783)),
        ("unix:/run/nbstream/spamd.sock", UnixAddress(Path("/run/nbstream/spamd.sock"))),
        ("unix:/" + "n" * (MAX_SOCKET_PATH - 1), UnixAddress(Path("/" + "n" * (MAX_SOCKET_PATH - 1)))),
    ],
)
def test_an_address_is_a_host_and_port_or_the_path_of_a_unix_socket(
    text: str, address: TcpAddress | UnixAddress
) -> None:
    assert read_listen_address(text) == address
    assert read_listen_address(address) == address
    assert read_listen_address(str(address)) == address


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("unix:", "must be a path"),
        ("unix:run/nbstream.sock", "must be unix:/PATH"),
        ("unix:/" + "n" * MAX_SOCKET_PATH, "must be unix:/PATH"),
        ("unix:/" + "\N{SNOWMAN}" * 40, "must be unix:/PATH"),
        ("unix:/run/\0", "must be a path"),
        ("/run/nbstream.sock", "must be HOST:PORT"),
        ("127.0.0.1", "must be HOST:PORT"),
        ("127.0.0.1:65536", "must be HOST:PORT"),
        (1783, "must be HOST:PORT"),
        (None, "must be HOST:PORT"),
    ],
)
def test_every_other_address_is_refused(value: object, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        read_listen_address(value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/s", UnixAddress(Path("/run/s"), 0o660, None)),
        ("unix:/run/s mode=0600", UnixAddress(Path("/run/s"), 0o600, None)),
        ("unix:/run/s mode=666", UnixAddress(Path("/run/s"), 0o666, None)),
        ("unix:/run/s group=mail", UnixAddress(Path("/run/s"), 0o660, "mail")),
        ("unix:/run/s mode=0600 group=mail", UnixAddress(Path("/run/s"), 0o600, "mail")),
        ("unix:/run/s  group=mail mode=0600", UnixAddress(Path("/run/s"), 0o600, "mail")),
        ("unix:/run/a socket mode=0600", UnixAddress(Path("/run/a socket"), 0o600, None)),
    ],
)
def test_permissions_and_group_stand_behind_the_path(text: str, address: UnixAddress) -> None:
    assert read_listen_address(text) == address


def spamd(folder: Path, text: str) -> Settings:
    file = folder / "nb.yaml"
    file.write_text(f"listeners: {{spamd: {text}}}")
    return load_settings(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{listen: 1783}", "listeners.spamd.listen: found 1783, must be HOST:PORT"),
        ("{group: mail}", "listeners.spamd.group"),
    ],
)
def test_a_problem_of_a_listener_names_its_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spamd(tmp_path, text)
    assert problem in str(caught.value)


def problems_of(folder: Path, **addresses: str) -> str:
    """The problems of a configuration with listeners at these addresses; empty where there is none."""
    file = folder / "nb.yaml"
    file.write_text("listeners:\n" + "".join(f"  {name}: {{listen: '{at}'}}\n" for name, at in addresses.items()))
    try:
        load_settings(file)
    except ConfigError as error:
        return str(error).removeprefix(f"{file}:")
    return ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("127.0.0.1:4000", "127.0.0.1:4000"),
        ("0.0.0.0:4000", "127.0.0.1:4000"),
        ("127.0.0.1:4000", "0.0.0.0:4000"),
        ("[::]:4000", "[::1]:4000"),
        ("[::1]:4000", "[0:0:0:0:0:0:0:1]:4000"),
        ("localhost:4000", "127.0.0.1:4000"),
        ("LOCALHOST:4000", "[::1]:4000"),
        ("0.0.0.0:4000", "localhost:4000"),
        ("mx.example.org:4000", "MX.example.org:4000"),
    ],
)
def test_two_listeners_at_one_address_are_a_problem_that_names_both(tmp_path: Path, one: str, other: str) -> None:
    said = problems_of(tmp_path, smtp=one, metrics=other)

    text = f"found {other!r}, must be another address than that of listeners.smtp ({one})"
    assert said == f"3: listeners.metrics.listen: {text}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("127.0.0.1:4000", "127.0.0.1:4001"),
        ("127.0.0.1:4000", "127.0.0.2:4000"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::]:4000", "127.0.0.1:4000"),
        ("[::]:4000", "0.0.0.0:4000"),
        ("mx.example.org:4000", "127.0.0.1:4000"),
    ],
)
def test_other_ports_hosts_and_families_and_port_0_are_no_problem(tmp_path: Path, one: str, other: str) -> None:
    assert problems_of(tmp_path, smtp=one, metrics=other) == ""
