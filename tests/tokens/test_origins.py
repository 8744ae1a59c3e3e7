"""The origin of a token in words."""

from __future__ import annotations

import pytest

from nbstream.tokens.origins import token_origin

LETTER = b"""Received: from mail.example.org by mx.example.net; Sat, 21 Nov 2026 10:00:00 +0000
Message-ID: <1@example.org>
Date: Sat, 21 Nov 2026 10:00:00 +0000
From: "Ann Lee" <ann@example.org>
To: you@example.net
Subject: RE: A  PRIZE!
X-Mailer: Mutt 1.5
X-Odd.Name: something
URL: elsewhere
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="xyz"

--xyz
Content-Type: text/html; charset=utf-8

<a href="https://user@www.example.com:8080/path?q">now</a>
--xyz
Content-Type: application/pdf; name="a.pdf"
Content-Disposition: attachment

%PDF
--xyz--
"""


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("body:prize", "text"),
        ("url:example.com", "link: host"),
        ("url.query", "link: query"),
        ("subject:prize", "Subject"),
        ("subject.end:!", "Subject: last mark"),
        ("subject.capitals", "Subject: all capitals"),
        ("from.name:ann", "From: name"),
        ("return-path.addresses:1", "Return-Path: number of addresses"),
        ("date.shape:a", "Date: form"),
        ("absent:to", "header: missing field"),
        ("x-mailer:mutt", "X-Mailer"),
        ("list-id:a", "List-Id"),
        ("dkim-signature:a.example", "DKIM-Signature"),
        ("authentication-results:spf=pass:a.example", "result of authentication"),
        ("arc-seal.selector:a", "ARC-Seal: selector"),
        ("x-odd.name:something", "X-Odd: name"),
        ("field-url:elsewhere", "Field-Url"),
        ("text.digits:3", "text: digits"),
        ("autolearn:limit", "limit of automatic learning"),
        ("field-autolearn:limit", "Field-Autolearn"),
        ("", ""),
    ],
)
def test_the_origin_follows_from_the_prefix(token: str, expected: str) -> None:
    assert token_origin(token) == expected


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("head:#AAAAAAAAAAAAAAA_", "header, hashed"),
        ("body:#AAAAAAAAAAAAAAA_", "text, hashed"),
        ("from:#AAAAAAAAAAAAAAA_", "sender or host, hashed"),
        ("raw:#AAAAAAAAAAAAAAA_", "header as written, hashed"),
        ("body:#hashtag", "text"),
    ],
)
def test_the_name_of_a_private_token_says_its_group_alone(token: str, expected: str) -> None:
    assert token_origin(token) == expected
