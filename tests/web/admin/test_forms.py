"""``nbstream.web.forms``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.web.forms import MAX_FORM_FIELDS, read_form, read_query
from nbstream.web.requests import PageRefused
from nbstream.web.server import passes_csrf_check

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=20))
def test_a_form_is_read_as_it_was_written(fields: list[tuple[str, str]]) -> None:
    form = read_form(urlencode(fields).encode())
    assert [(name, value) for name, values in form.items() for value in values] == sorted(
        fields, key=lambda field: list(dict(fields)).index(field[0])
    )


def test_the_number_of_fields_is_bounded() -> None:
    assert len(read_form(b"&".join([b"a=1"] * MAX_FORM_FIELDS))["a"]) == MAX_FORM_FIELDS
    with pytest.raises(PageRefused) as refused:
        read_form(b"&".join([b"a=1"] * (MAX_FORM_FIELDS + 1)))
    assert refused.value.status == 400
    with pytest.raises(PageRefused):
        read_query("&" * 100 + "a=1")


# ``nbstream.web.forms``.


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
    assert (passes_csrf_check("GET", headers), passes_csrf_check("POST", headers)) == (may_read, may_post)
