"""SMTP arguments and content without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.smtp.codec import declared_size, parse_path, parse_xforward, remove_dot_stuffing


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


def test_a_declared_size_is_read() -> None:
    assert declared_size(("BODY=8BITMIME", "size=123")) == 123
    assert declared_size(("SIZE=x",)) is None
    assert declared_size(()) is None


@pytest.mark.parametrize(
    ("argument", "attributes"),
    [
        ("ADDR=192.0.2.7", {"ADDR": "192.0.2.7"}),
        ("addr=IPV6:2001:DB8::0:7", {"ADDR": "2001:db8::7"}),
        ("ADDR=[UNAVAILABLE]", {"ADDR": ""}),
        ("ADDR=[tempunavail] NAME=[UNAVAILABLE]", {"ADDR": "", "NAME": ""}),
        ("NAME=mx.example ADDR=192.0.2.7 PORT=42", {"NAME": "mx.example", "ADDR": "192.0.2.7", "PORT": "42"}),
        ("PROTO=ESMTP IDENT=4Q SOURCE=REMOTE", {"PROTO": "ESMTP", "IDENT": "4Q", "SOURCE": "REMOTE"}),
        ("HELO=a+20b+3D SOURCE=LOCAL", {"HELO": "a b=", "SOURCE": "LOCAL"}),
        ("HELO=a+2", None),
        ("HELO=" + "x" * 256, None),
        ("ADDR=example.org", None),
        ("ADDR=fe80::1%a\x1b[2J", None),
        ("ADDR=192.0.2.7 LOGIN=x", None),
        ("ADDR", None),
        ("", None),
        (None, None),
    ],
)
def test_xforward_names_a_client_by_its_attributes(
    argument: str | None, attributes: dict[str, str] | None
) -> None:
    assert parse_xforward(argument) == attributes


@given(st.text(min_size=1, max_size=60).filter(lambda text: text.isascii()))
def test_an_attribute_of_xforward_is_decoded_from_xtext(value: str) -> None:
    encoded = "".join(f"+{ord(character):02X}" for character in value)
    assert parse_xforward(f"HELO={encoded}") == {"HELO": value}


def stuff(content: bytes) -> bytes:
    """What a client sends for ``content``: the line end of DATA before it, dots doubled (RFC 5321 4.5.2)."""
    return (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")


@given(st.lists(st.sampled_from([b".", b"\r\n", b"a", b"..", b"\r", b"\n"]), max_size=20).map(b"".join))
def test_dot_stuffing_is_undone_exactly(content: bytes) -> None:
    assert remove_dot_stuffing(stuff(content)) == b"\r\n" + content
