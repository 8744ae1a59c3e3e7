"""The tags of DKIM-Signature and its like: a domain and a selector that are names, or no token."""

from __future__ import annotations

import re

from nbstream.tokens.header_tokens import signature_tokens
from tests.fuzz.target import FuzzTarget

_TOKEN = re.compile(r"dkim-signature(?:\.selector)?:[\w.-]+")


def _check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    tokens = signature_tokens("dkim-signature", text)
    assert len(tokens) <= 5
    assert all(map(_TOKEN.fullmatch, tokens))
    assert all(len(token) <= 300 for token in tokens)
    # A signature of which the first tags are ours says the same whatever follows.
    signed = signature_tokens("dkim-signature", "v=1; d=a.example.org; s=sel; " + text)
    assert signed == ["dkim-signature:a.example.org", "dkim-signature:example.org", "dkim-signature.selector:sel"]


TARGET = FuzzTarget(
    _check,
    (
        b"v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=2026; h=from:to; bh=AAAA=; b=BBBB",
        b"D=upper; d = ex\r\n ample.org ; s=\ts e l; d=second.example",
        b"d=.; s=-; d=a..b; s=..",
        b";".join([b"x=y"] * 60) + b";d=late.example",
        "d=bücher.example; s=ключ".encode(),
    ),
    words=(b"d=", b"s=", b";", b"=", b"\r\n ", b"xn--"),
    mutations=1500,
)
