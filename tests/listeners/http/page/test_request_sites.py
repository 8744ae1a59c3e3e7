"""``nbstream.listeners.http.page.forms``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nbstream.listeners.http.page.forms import may_ask


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
