"""Whose feedback is believed: those in the networks of the configuration, and those that permissions let in."""

from __future__ import annotations

import ipaddress

import pytest

from nbstream.server.connections import Peer, Teachers

NETWORKS = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::1%eth0", True),
        ("192.0.2.1", False),
        ("127.0.0.1", False),
        ("unknown", False),
        ("", False),
        (None, True),
    ],
)
def test_peers_of_the_networks_and_peers_without_an_address_may_teach(address: str | None, expected: bool) -> None:
    assert Teachers(NETWORKS).may_teach(Peer(address)) is expected


@pytest.mark.parametrize(("address", "expected"), [("127.0.0.1", False), (None, True)])
def test_without_networks_only_peers_without_an_address_may_teach(address: str | None, expected: bool) -> None:
    assert Teachers().may_teach(Peer(address)) is expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.9", True), ("::1", True), (None, True), ("10.1.2.3", False), ("unknown", False), ("", False)],
)
def test_a_peer_is_on_this_machine_by_its_address_or_without_one(address: str | None, expected: bool) -> None:
    assert Peer(address).is_on_this_machine is expected
