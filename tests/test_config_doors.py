"""Where doors listen and who may connect, as the configuration says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.config import Address
from nbstream.config.values import MAX_SOCKET_PATH, UnixAddress, read_mode, read_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:1783", Address("127.0.0.1", 1783)),
        ("[::1]:1783", Address("::1", 1783)),
        ("unix.example.org:1783", Address("unix.example.org", 1783)),
        ("unix:/run/nbstream/spamd.sock", UnixAddress(Path("/run/nbstream/spamd.sock"))),
        ("unix:/" + "n" * (MAX_SOCKET_PATH - 1), UnixAddress(Path("/" + "n" * (MAX_SOCKET_PATH - 1)))),
    ],
)
def test_a_place_is_a_host_and_port_or_the_path_of_a_unix_socket(text: str, place: Address | UnixAddress) -> None:
    assert read_place(text) == place
    assert read_place(place) == place
    assert read_place(str(place)) == place


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
def test_every_other_place_is_refused(value: object, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        read_place(value)


def test_only_this_machine_can_reach_a_unix_socket() -> None:
    assert read_place("unix:/run/nbstream.sock").loopback


@pytest.mark.parametrize(("text", "mode"), [("0660", 0o660), ("660", 0o660), ("0600", 0o600), ("777", 0o777)])
def test_permissions_are_octal_digits_in_quotes(text: str, mode: int) -> None:
    assert read_mode(text) == mode


# YAML reads 0660 as 432 (octal, YAML 1.1) and 660 as six hundred and sixty.
@pytest.mark.parametrize("value", [660, 0o600, True, None, "", "66", "0o660", "0680", "1777", "-660", "rw-rw----"])
def test_other_permissions_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match='must be permissions in quotes, such as "0660"'):
        read_mode(value)
