"""``nbstream.server.http.access``."""

from __future__ import annotations

import ipaddress

import pytest

from nbstream.server.connections import Peer
from nbstream.server.http.access import client_of, failure_sources

ALLOWED = [ipaddress.ip_network("192.0.2.0/28")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),  # HAProxy adds a field of its own
        ("127.0.0.1", ["203.0.113.9", ""], "127.0.0.1"),
        ("127.0.0.1", ["2001:DB8::1%a b peer=203.0.113.9 \udcff"], "2001:db8::1"),
        (None, ["198.51.100.1"], "198.51.100.1"),
        (None, [], None),
        ("127.0.0.1", ["somebody"], "127.0.0.1"),
        ("192.0.2.1", ["198.51.100.1"], "198.51.100.1"),
        ("192.0.2.99", ["198.51.100.1"], "192.0.2.99"),
    ],
)
def test_a_proxy_on_this_machine_or_an_allowed_one_names_its_client(
    peer: str | None, forwarded: list[str], client: str | None
) -> None:
    assert client_of(Peer(peer), [("X-Forwarded-For", value) for value in forwarded], ALLOWED) == Peer(client)


@pytest.mark.parametrize(
    ("peer", "field", "sources"),
    [
        ("198.51.100.1", ("Host", "mail.example"), {"198.51.100.1": 10}),
        ("198.51.100.1", ("X-Forwarded-For", "203.0.113.9"), {"198.51.100.1": 10}),
        ("127.0.0.1", ("Host", "localhost:11334"), {"127.0.0.1": 10}),
        (None, ("Host", "nbstream"), {"local": 10}),
        ("127.0.0.1", ("x-forwarded-for", "198.51.100.1"), {"198.51.100.1": 10, "127.0.0.1 as proxy": 100}),
        (None, ("X-Forwarded-For", "198.51.100.1"), {"198.51.100.1": 10, "local as proxy": 100}),
        ("192.0.2.1", ("X-Forwarded-For", "198.51.100.1"), {"198.51.100.1": 10, "192.0.2.1 as proxy": 100}),
        ("192.0.2.1", ("X-Real-IP", "x"), {"192.0.2.1 as proxy of nobody": 10, "192.0.2.1 as proxy": 100}),
        ("192.0.2.1", ("Host", "mail.example"), {"192.0.2.1": 10}),
    ],
)
def test_failures_are_counted_for_the_client_and_for_its_proxy(
    peer: str | None, field: tuple[str, str], sources: dict[str, int]
) -> None:
    assert failure_sources(Peer(peer), [field], ALLOWED) == sources
    assert list(failure_sources(Peer(peer), [field], ALLOWED)) == list(sources)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9%eth0", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("x" * 1000, "x" * 64),
    ],
)
def test_failures_of_one_site_are_counted_together(address: str, source: str) -> None:
    assert list(failure_sources(Peer(address), [], ALLOWED)) == [source]
