"""The arguments of MAIL, RCPT and XFORWARD, and the replies of a next hop as they are passed on."""

from __future__ import annotations

import re
from ipaddress import ip_address

from nbstream.delivery.next_hop import SmtpReply
from nbstream.listeners.smtp.codec import (
    XFORWARD_ATTRIBUTES,
    declared_size,
    parse_path,
    parse_xforward,
    remove_dot_stuffing,
)
from tests.fuzz.target import FuzzTarget

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REPLY_LINE = re.compile(rb"250[ -][\x20-\x7e]*")


def _check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for keyword in ("FROM", "TO"):
        _check_path(keyword, text)
    attributes = parse_xforward(text)
    if attributes is not None:
        assert set(attributes) <= set(XFORWARD_ATTRIBUTES)
        assert all(len(value) <= 255 for value in attributes.values())
        address = attributes.get("ADDR")
        if address:
            assert str(ip_address(address)) == address
            assert parse_xforward(f"ADDR={address}") == {"ADDR": address}
    stuffed = data.replace(b"\r\n.", b"\r\n..")
    assert remove_dot_stuffing(stuffed) == data
    reply = SmtpReply(250, text).render()
    assert [_REPLY_LINE.fullmatch(line) is not None for line in reply.split(b"\r\n")] == [True] * (
        text.count("\n") + 1
    )


def _check_path(keyword: str, argument: str) -> None:
    """Check that the next hop reads in the path what was read in it here."""
    parsed = parse_path(keyword, argument)
    if parsed is None:
        return
    address, parameters = parsed
    assert not any(map(_CONTROL.search, (address, *parameters)))
    assert not any(" " in parameter for parameter in parameters)
    size = declared_size(parameters)
    assert size is None or size >= 0
    passed_on = " ".join((f"{keyword}:<{address}>", *parameters))
    if not address.startswith("@"):  # a path with nothing but routes, which the next hop refuses
        assert parse_path(keyword, passed_on) == parsed


TARGET = FuzzTarget(
    _check,
    (
        b"FROM:<ann@example.org> SIZE=1000 BODY=8BITMIME SMTPUTF8",
        b"FROM:<>",
        b"FROM: bob@example.org RET=HDRS ENVID=QQ314159",
        b"TO:<@a.example,@b.example:carl@c.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;carl@c.example",
        b'TO:<"a > b\\" c"@example.org>',
        b"to:<d\xc3\xbc@example.org>",
        b"ADDR=192.0.2.1",
        b"ADDR=IPV6:2001:db8::1",
        b"ADDR=[UNAVAILABLE]",
        b"ADDR=fe80::1%eth0",
        b".\r\n..\r\n.a\r\n\r\n.",
        b"5.7.1 no\nsuch user\r\n\x1b[2J\xff",
    ),
    words=(b"FROM:<", b"TO:<", b"ADDR=", b"IPV6:", b" SIZE=", b"> ", b'"', b"\\", b"\r\n.", b"@a,@b:", b"::ffff:"),
    findings=(b'FROM:bob"@example.org', b'TO:@":TO:@":'),
    mutations=2000,
)
