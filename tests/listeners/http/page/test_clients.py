"""``nbstream.listeners.http.page.clients``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nbstream.listeners.http.page.clients import client_of, failure_sources, may_ask
from nbstream.listeners.peers import Peer


@pytest.mark.parametrize(
    ("fields", "may_read", "may_post"),
    [
        ({}, True, False),  # no browser
        ({"Origin": "http://127.0.0.1:11334"}, True, True),
        ({"Origin": "https://127.0.0.1:11334"}, True, True),  # a proxy ended TLS
        ({"Origin": "http://127.0.0.1"}, False, False),
        ({"Origin": "http://127.0.0.1:11335"}, False, False),
        ({"Origin": "http://127.0.0.1:11334.evil.example"}, False, False),
        ({"Origin": "http://evil.example"}, False, False),
        ({"Origin": "http://u@127.0.0.1:11334"}, False, False),
        ({"Origin": "null"}, False, False),
        ({"Origin": ""}, False, False),
        ({"Origin": "http://[::1"}, False, False),
        ({"Sec-Fetch-Site": "same-origin"}, True, True),
        (
            {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.example"},
            True,
            True,
        ),  # a proxy changed Host
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, True, False),  # a typed address
        ({"Sec-Fetch-Site": "none"}, True, False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True, False),  # a link in a mail
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, False, False),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, False, False),
        ({"Sec-Fetch-Site": "same-site"}, False, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:11334"}, False, False),
    ],
)
def test_whether_another_site_may_have_asked(fields: Mapping[str, str], may_read: bool, may_post: bool) -> None:
    headers = {"Host": "127.0.0.1:11334", **fields}
    assert (may_ask("GET", headers), may_ask("POST", headers)) == (may_read, may_post)


def test_without_a_host_no_origin_is_ours() -> None:
    assert not may_ask("POST", {"Origin": "http://"})
    assert not may_ask("POST", {"Origin": "null"})


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
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),
    ],
)
def test_a_proxy_on_this_machine_names_its_client(
    peer: str | None, forwarded: list[str], client: str | None
) -> None:
    assert client_of(Peer(peer), forwarded) == Peer(client)


def test_failures_are_counted_for_the_client_and_for_its_proxy() -> None:
    client, proxy = Peer("198.51.100.1"), Peer("127.0.0.1")
    assert failure_sources(client, client) == {"198.51.100.1": 10}
    assert failure_sources(proxy, client) == {"198.51.100.1": 10, "127.0.0.1 as proxy": 100}
    assert failure_sources(Peer(None), Peer(None)) == {"local": 10}


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
    assert list(failure_sources(Peer(address), Peer(address))) == [source]
