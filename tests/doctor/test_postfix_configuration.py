"""What ``postconf`` prints, as Postfix 3.7 prints it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.doctor.postfix_configuration import (
    Endpoint,
    filter_endpoint,
    inline_values,
    parse_postfix,
    split_words,
)

MAIN = """\
alias_maps =
message_size_limit = 100000
smtpd_relay_restrictions = check_sender_access inline:{ { nb.invalid = 550 5.7.1 No } } permit_mynetworks, reject
"""
SERVICES = """\
127.0.0.1:10026 inet n  -       n       -       -       smtpd -o content_filter= -o message_size_limit=0
smtp       inet  n       -       n       -       -       smtpd -o content_filter=nbstream:[127.0.0.1]:10025
smtp       unix  -       -       n       -       -       smtp
"""
OPTIONS = """\
127.0.0.1:10026/inet/content_filter =
127.0.0.1:10026/inet/message_size_limit = 0
smtp/inet/content_filter = nbstream:[127.0.0.1]:10025
"""


def test_a_service_has_its_own_values_and_else_those_of_main_cf() -> None:
    postfix = parse_postfix(MAIN, SERVICES, OPTIONS)
    back, outside = postfix.smtp_servers

    assert [str(service) for service in postfix.services] == ["127.0.0.1:10026/inet", "smtp/inet", "smtp/unix"]
    assert (back.endpoint, outside.endpoint) == (Endpoint("loopback", 10026), Endpoint("loopback", 25))
    assert postfix.value("content_filter", back) == ""
    assert postfix.value("content_filter", outside) == "nbstream:[127.0.0.1]:10025"
    assert [postfix.value("message_size_limit", service) for service in (back, outside)] == ["0", "100000"]
    assert postfix.value("milter_default_action") == "tempfail"
    assert postfix.words("smtpd_relay_restrictions") == [
        "check_sender_access",
        "inline:{ { nb.invalid = 550 5.7.1 No } }",
        "permit_mynetworks",
        "reject",
    ]


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("nbstream:[127.0.0.1]:10025", Endpoint("loopback", 10025)),
        ("smtp:filter.example:10025", Endpoint("filter.example", 10025)),
        ("[::1]:10025", Endpoint("loopback", 10025)),
        ("inet:localhost:10025", Endpoint("loopback", 10025)),
        ("127.0.0.1:smtp", Endpoint("loopback", 25)),
        ("unix:private/filter", Endpoint("/queue/private/filter")),
        ("lmtp:unix:/run/nbstream/lmtp.sock", Endpoint("/run/nbstream/lmtp.sock")),
        ("{ inet:192.0.2.7:8891, default_action=accept }", Endpoint("192.0.2.7", 8891)),
        ("", None),
        ("dovecot:", None),
    ],
)
def test_where_a_filter_is(text: str, endpoint: Endpoint | None) -> None:
    assert filter_endpoint(text, "/queue") == endpoint


def test_the_values_of_inline_tables() -> None:
    text = "inline:{ nbstream.invalid=nbstream:[127.0.0.1]:10025 { a.example = smtp:[b] } }, hash:/etc/postfix/t"

    assert inline_values(text) == ["nbstream:[127.0.0.1]:10025", "smtp:[b]"]


@given(st.text(), st.text(), st.text())
def test_any_text_is_read(main: str, services: str, options: str) -> None:
    postfix = parse_postfix(main, services, options)

    for service in postfix.services:
        assert isinstance(service.endpoint, Endpoint | None)
    split_words(main)
    filter_endpoint(main, services)
    inline_values(main)
