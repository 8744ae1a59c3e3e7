"""Authentication-Results: bounded, and what a sender chose never gives the token of a domain of his choice."""

from __future__ import annotations

import re

from nbstream.mail.header_fields import HeaderField
from nbstream.tokens.authentication import FIELD, MAX_FIELDS, MAX_RESULTS, authentication_tokens
from tests.fuzz.target import FuzzTarget

_TRUSTED = frozenset({"mx.example.net"})
_RECEIVED = HeaderField("received", b"from a by b", "Received")
_EXPECTED = {
    f"{FIELD}:spf=pass",
    f"{FIELD}:spf=pass:good.example.org",
    f"{FIELD}:spf=pass:example.org",
    f"{FIELD}:dkim=fail",
}


def _check(data: bytes) -> None:
    field = HeaderField(FIELD, data, "Authentication-Results")
    tokens = authentication_tokens([field, _RECEIVED], _TRUSTED)
    assert len(tokens) == len(set(tokens)) <= MAX_FIELDS * MAX_RESULTS * 5
    assert all(token.startswith(f"{FIELD}:") for token in tokens)
    assert authentication_tokens([field], _TRUSTED) == []
    assert authentication_tokens([_RECEIVED, field], _TRUSTED) == []
    assert authentication_tokens([field, _RECEIVED], frozenset({"other.example"})) == [] or data
    _check_address(data)


def _check_address(chosen: bytes) -> None:
    """Check the field that a server writes which quotes the local part that the sender chose."""
    local_part = re.sub(rb'(["\\])', rb"\\\1", re.sub(rb"[\x00-\x1f\x7f-\xff]", b"", chosen[:200]))
    value = b'mx.example.net; spf=pass smtp.mailfrom="%s"@good.example.org; dkim=fail (bad)' % local_part
    tokens = authentication_tokens([HeaderField(FIELD, value, "A"), _RECEIVED], _TRUSTED)
    assert set(tokens) <= _EXPECTED
    assert {f"{FIELD}:spf=pass", f"{FIELD}:dkim=fail"} <= set(tokens)


TARGET = FuzzTarget(
    _check,
    (
        b"mx.example.net; spf=pass smtp.mailfrom=a@example.org; dkim=pass (2048-bit) header.d=example.org",
        b"mx.example.net 1; dmarc=fail (p=none dis=none) header.from=example.com; none",
        b'"mx.example.net"; spf = pass reason="a;b" smtp.mailfrom="x y"@example.org smtp.helo=h.example',
        b"mx.example.net (comment (nested) \\) x); auth/1=pass smtp.auth=ann; arc=none; "
        b"iprev=pass policy.iprev=192.0.2.1",
        b"mx.example.net; dkim=pass header.i=@a.example header.d=b.example header.d=c.example; domainkeys=neutral",
    ),
    words=(
        b"mx.example.net;",
        b"; spf=pass ",
        b" smtp.mailfrom=",
        b"header.d=",
        b"(",
        b")",
        b'"',
        b"\\",
        b";",
        b" =",
        b"@evil.example",
    ),
    max_bytes=5000,
    mutations=1500,
)
