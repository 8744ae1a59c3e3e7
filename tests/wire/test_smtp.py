"""SMTP arguments and content without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.wire.smtp import declared_size, forwarded_address, parse_path, remove_dot_stuffing


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("FROM:<a@b>", ("a@b", ())),
        ("from: <a@b> SIZE=10 BODY=8BITMIME", ("a@b", ("SIZE=10", "BODY=8BITMIME"))),
        ("FROM:<>", ("", ())),
        ("FROM:<a@b> ENVID=QQ+2Bx RET=HDRS X-Odd", ("a@b", ("ENVID=QQ+2Bx", "RET=HDRS", "X-Odd"))),
        ('FROM:<"a >b"@c>', ('"a >b"@c', ())),
        ("FROM:a@b", ("a@b", ())),
        ('FROM:"a b"@c SIZE=1', ('"a b"@c', ("SIZE=1",))),
        ("FROM:<@x,@y:a@b>", ("a@b", ())),
        ("FROM:<grüße@b> SMTPUTF8", ("grüße@b", ("SMTPUTF8",))),
        ("FROM:<a@b> AUTH=<>", ("a@b", ("AUTH=<>",))),
    ],
)
def test_a_path_keeps_its_bytes_and_the_case_of_its_parameters(
    argument: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    assert parse_path("FROM", argument) == expected


@pytest.mark.parametrize(
    "argument",
    [
        *(None, "", "FROM", "TO:<a@b>", "FROM:", "FROM:<a@b", "FROM:<a@b> =x", "FROM:<a\x00b@c>", "FROM:<a> <b>"),
        # With brackets around them these would be no paths for the next hop.
        *('FROM:a"b@c', 'FROM:a"b@c SIZE=1', 'FROM:<@":a">', 'FROM:<@x":a@b">'),
    ],
)
def test_bad_syntax_is_none(argument: str | None) -> None:
    assert parse_path("FROM", argument) is None


@given(st.text(max_size=60))
def test_reading_a_path_never_raises(argument: str) -> None:
    parse_path("TO", "TO:" + argument)


def test_a_declared_size_is_read() -> None:
    assert declared_size(("BODY=8BITMIME", "size=123")) == 123
    assert declared_size(("SIZE=x",)) is None
    assert declared_size(()) is None


@pytest.mark.parametrize(
    ("argument", "address"),
    [
        ("ADDR=192.0.2.7", "192.0.2.7"),
        ("addr=IPV6:2001:DB8::0:7", "2001:db8::7"),
        ("ADDR=[UNAVAILABLE]", ""),
        ("ADDR=[tempunavail]", ""),
        ("ADDR=example.org", None),
        ("ADDR=fe80::1%a\x1b[2J", None),
        ("ADDR=192.0.2.7 NAME=x", None),
        ("NAME=x", None),
        ("ADDR", None),
        ("", None),
        (None, None),
    ],
)
def test_the_address_that_a_mail_server_forwards_is_one_or_none(argument: str | None, address: str | None) -> None:
    assert forwarded_address(argument) == address


def stuff(content: bytes) -> bytes:
    """What a client sends for ``content``: the line end of DATA before it, dots doubled (RFC 5321 4.5.2)."""
    return (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")


@given(st.lists(st.sampled_from([b".", b"\r\n", b"a", b"..", b"\r", b"\n"]), max_size=20).map(b"".join))
def test_dot_stuffing_is_undone_exactly(content: bytes) -> None:
    assert remove_dot_stuffing(stuff(content)) == b"\r\n" + content
