import base64
import random
import re
import sys
import unicodedata
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from nbstream.tokens.tokens import MAX_TOKEN_BYTES, Tokens
from tests.harness.samples import samples

MAIL = b"""Received: from a.x.example ([192.0.2.9]) by y.example with SMTP; Sun, 1 Jan 2023 00:00:00 +0000
From: =?utf-8?q?Ann_=C3=84?= <ann@x.example>
To: bob@y.example
Subject: =?utf-8?b?RsO8ciBEaWNo?= 100% free
Date: Sun, 1 Jan 2023 00:00:00 +0000
Message-ID: <1.2.abc@x.example>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain; charset=utf-8

Hello w\xc3\xb6rld, see http://x.example/path
--b
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p>Hello <b>w=C3=B6rld</b> <a href=3D"http://z.example/">here</a>
--b--
"""


def tokenize(raw: bytes, options: TokenizerOptions | None = None) -> Tokens:
    return Tokenizer(options or TokenizerOptions()).tokenize(Message.parse(raw)).tokens


def assert_well_formed(tokens: Tokens, limit: int = 2000) -> None:
    assert len(tokens.all) <= limit
    assert len(set(tokens.all)) == len(tokens.all)
    for token in tokens.all:
        assert 0 < len(token) <= MAX_TOKEN_BYTES
        assert not re.search(rb"[\x00-\x20\x7f]", token)
        token.decode("utf-8")


def test_header_and_body_give_their_own_tokens() -> None:
    tokens = tokenize(MAIL)
    assert {b"from:x.example", "subject:für".encode(), b"received:192.0.2"} <= set(tokens.head)
    assert {"body:wörld".encode(), b"url:x.example", b"url:z.example"} <= set(tokens.body)
    assert_well_formed(tokens)


def test_line_ends_make_no_difference() -> None:
    assert tokenize(MAIL) == tokenize(MAIL.replace(b"\n", b"\r\n")) == tokenize(MAIL.replace(b"\n", b"\r"))


def test_the_same_message_gives_the_same_tokens_in_the_same_order() -> None:
    assert tokenize(MAIL) == tokenize(MAIL)


@pytest.mark.parametrize("text", [b"Free entry: reply WIN now", b"URGENT: you have won", b"hi", b"one\n\ntwo: x"])
def test_a_text_without_header_fields_is_all_body(text: bytes) -> None:
    tokens = tokenize(text)
    words = re.findall(rb"[a-z]+", text.lower())
    assert {b"body:" + word for word in words} <= set(tokens.body)
    assert tokens.head[0] == b"fields:none"
    assert all(token.startswith(b"text.") for token in tokens.head[1:])


def test_a_line_feed_inside_a_token_does_not_break_it_in_two() -> None:
    raw = b"Subject: =?utf-8?q?a=0A?=\nContent-Type: text/plain; name*=utf-8''x%0Ay.gif\n\n"
    tokens = tokenize(raw)
    assert {b"subject.end:_", b"file:x_y.gif"} <= set(tokens.head)
    assert_well_formed(tokens)


def test_an_empty_message_is_tokenized() -> None:
    assert tokenize(b"").body == ()


def test_folding_makes_no_more_characters_than_a_message_has_bytes() -> None:
    """U+FDFA becomes 18 characters: behind the limit such words keep their forms."""
    raw = MAIL[: MAIL.index(b"MIME")] + b"\n" + "".join(f"{n:04}\ufdfa\n" for n in range(5000)).encode()

    words = tokenize(raw, TokenizerOptions(max_tokens=50_000)).body

    kept = sum("\ufdfa".encode() in word for word in words)
    made = (5000 - kept) * len(unicodedata.normalize("NFKC", "\ufdfa"))
    assert len(raw) // 2 < made <= len(raw)


def test_text_of_one_byte_for_each_compatibility_form_is_folded_whole() -> None:
    """Half-width kana in Shift_JIS: no text of people makes more characters of a byte."""
    draw = random.Random(1)
    words = b" ".join(bytes(draw.choices(range(0xB1, 0xDE), k=8)) for _ in range(7000))
    raw = b"Subject: x\nContent-Type: text/plain; charset=shift_jis\n\n" + words

    text = b" ".join(tokenize(raw, TokenizerOptions(max_tokens=100_000)).body).decode()

    assert not re.search("[\uff61-\uff9d]", text)


def test_tokens_are_bounded_and_come_in_order_of_appearance() -> None:
    body = b" ".join(b"w%d" % n for n in range(5000))
    bounded = tokenize(MAIL[: MAIL.index(b"MIME")] + b"\n" + body, TokenizerOptions(max_tokens=300))
    assert len(bounded.all) == 300
    assert bounded.body[:2] == (b"body:w0", b"body:w1")
    few = tokenize(MAIL, TokenizerOptions(max_tokens=10))
    assert (few.head, few.raw_header) == (tokenize(MAIL).head[:4], tokenize(MAIL).raw_header[:2])


def test_a_long_header_does_not_crowd_out_the_body() -> None:
    lists = (b", ".join(b"n%d@h%d.example" % (n, n) for n in range(k, k + 30)) for k in range(0, 2700, 30))
    fields = b"".join(b"To: " + addresses + b"\n" for addresses in lists)

    tokens = tokenize(fields + b"Subject: x\n\n" + b" ".join(b"word%d" % n for n in range(1500)))

    assert len(tokens.all) == 2000
    assert len(tokens.body) >= 750


@given(st.binary(max_size=400))
def test_any_bytes_are_tokenized(raw: bytes) -> None:
    assert_well_formed(tokenize(raw))


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_mutated_mail_is_tokenized(generator: random.Random, changes: int) -> None:
    raw = bytearray(MAIL)
    for _ in range(changes):
        start, length = generator.randrange(len(raw)), generator.randrange(12)
        piece = generator.choice(
            [b"", generator.randbytes(length), bytes(raw[start : start + 40]), b"\r\n", b'"<=?@;:']
        )
        raw[start : start + length] = piece
    assert_well_formed(tokenize(bytes(raw)))


FIELDS = b"From: a@x.example\nSubject: s\n"
HTML = FIELDS + b"Content-Type: text/html\n\n"
PATHOLOGICAL: dict[str, Callable[[int], bytes]] = {
    "one long word": lambda n: FIELDS + b"\n" + b"a" * n,
    "marks between letters": lambda n: FIELDS + b"\n" + b"a-" * (n // 2),
    "underscores": lambda n: FIELDS + b"\n" + b"_" * n,
    "open tags": lambda n: HTML + b"<" * n,
    "nested blocks": lambda n: HTML + b"<div>" * (n // 5),
    "nested lists": lambda n: HTML + b"<ul><li>" * (n // 8),
    "open comments": lambda n: HTML + b"<!--" * (n // 4),
    "open scripts": lambda n: HTML + b"<script " * (n // 8),
    "closing scripts": lambda n: HTML + b"</script" * (n // 8),
    "spaces in a tag": lambda n: HTML + b"<a href" + b" " * n,
    "ampersands": lambda n: HTML + b"&#" * (n // 2),
    "digits of an entity": lambda n: HTML + b"&#" + b"1" * n + b";",
    "schemes": lambda n: FIELDS + b"\n" + b"http" * (n // 4),
    "one long link": lambda n: FIELDS + b"\n" + b"http://" + b"a." * (n // 2),
    "many links": lambda n: FIELDS + b"\n" + b"http://a.b " * (n // 11),
    "long address": lambda n: b"From: " + b"a" * n + b"\n\n",
    "many addresses": lambda n: b"From: " + b"a@b.c," * (n // 6) + b"\n\n",
    "labels of a host": lambda n: b"Received: from " + b"a." * (n // 2) + b"\n\n",
    "spaces in a date": lambda n: b"Date: " + b" " * n + b"x\n\n",
    "many fields": lambda n: b"Received: x\n" * (n // 12) + b"\n",
    "many other fields": lambda n: b"".join(b"X-%d: a b\n" % i for i in range(n // 10)) + b"\n",
    "names without colon": lambda n: FIELDS + b"a" * n,
    "lines of base64": lambda n: FIELDS + b"\n" + b"QUJD" * (n // 8) + b"\nQUJD\n" * (n // 12),
    "lines that are nearly base64": lambda n: FIELDS + b"\n" + b"AAAA=\n!" * (n // 7),
    "soft line breaks": lambda n: FIELDS + b"\n" + b"=\n" * (n // 2),
    "unspaced script": lambda n: FIELDS + b"\n" + "票".encode() * (n // 3),
    "composed characters": lambda n: FIELDS + b"\n" + "\ufdfa".encode() * (n // 3),
    "combining marks": lambda n: FIELDS + b"\n" + "a\u0315\u0300".encode() * (n // 5),
    "one word's combining marks": lambda n: FIELDS + b"\n" + "\u0315\u0300".encode() * (n // 4),
}


def calls(raw: bytes) -> int:
    """The number of Python and C functions that are called to tokenize ``raw``."""
    message, tokenizer = Message.parse(raw), Tokenizer()
    assert message.parts
    count = 0

    def count_call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(count_call)
    try:
        tokenizer.tokenize(message)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
def test_a_megabyte_of_pathological_input_is_tokenized(make: Callable[[int], bytes]) -> None:
    # Calls do not show what happens inside a pattern; there, quadratic work on 1 MB would outlast any test run.
    assert_well_formed(tokenize(make(1_000_000)))
    assert_well_formed(tokenize(make(2_000_000)))  # the end of it is read apart


def test_the_groups_are_found_again_in_all_tokens() -> None:
    raw = b"From: a@b.example\r\nURL: http://c.example\r\nBody: x\r\n\r\nhttps://d.example:99/e?f (body: url)\r\n"
    for content in (raw, *(letter for _, letter in samples(20))):
        tokens = Tokenizer().tokenize(Message.parse(content)).tokens
        assert tokens.head
        assert tokens.body
        assert Tokens.from_all(tokens.all) == tokens


@pytest.mark.parametrize("name", [b"Body", b"Url", b"Url.path", b"URL.host"])
def test_no_field_makes_a_token_of_the_body(name: bytes) -> None:
    tokens = tokenize(b"From: a@b.example\n" + name + b": free address\n\nfree http://free/free\n")
    assert len(set(tokens.all)) == len(tokens.all)


SHOWN = "viagra lottery casino pills"


def shown_words(fields: str, body: str | bytes) -> set[str]:
    """The words of the texts of a mail, those of them that are in ``SHOWN``."""
    content = body if isinstance(body, bytes) else body.encode()
    raw = f"From: a@b.example\nSubject: x\n{fields}\n\n".encode() + content
    words = {
        token.removeprefix(b"body:").decode() for token in Tokenizer().tokenize(Message.parse(raw)).tokens.body
    }
    return words & set(SHOWN.split())


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ("Content-Type: text/plain", "<body " + SHOWN),  # text/plain is text, whatever it looks like
        ("Content-Type: text/html (of a kind)", f"<p title='<!--'>{SHOWN}"),
        ("Content-Type: text/html", "".join(f"{word[:2]}<wbr>{word[2:]} " for word in SHOWN.split())),
        ("Content-Type: text/html", "".join(f"{word[:2]}&shy;{word[2:]} " for word in SHOWN.split())),
        ("Content-Transfer-Encoding: (from here) Base64 (by (me))", base64.b64encode(SHOWN.encode())),
        ("Content-Transfer-Encoding: base64", b"Zm9vIA==\nYg==\n" + base64.b64encode(b" " + SHOWN.encode())),
        ("Content-Transfer-Encoding: quoted-printable", SHOWN.replace("o", "=  \no")),
        (f"X-Long: {'y' * 300_000}\nContent-Transfer-Encoding: base64", base64.b64encode(SHOWN.encode())),
        ('Content-Type: application/octet-stream; name="a.HTM"', f"<p>{SHOWN}"),
        ("Content-Type: application/octet-stream; name=a.txt", SHOWN),
        ("Content-Type: image/svg+xml", f"<svg><text>{SHOWN}</text></svg>"),
    ],
)
def test_what_a_mail_program_shows_is_read(fields: str, body: str | bytes) -> None:
    assert shown_words(fields, body) == set(SHOWN.split())


def test_what_is_hidden_is_a_token_of_structure() -> None:
    raw = b"From: a@b.example\nContent-Type: text/html\n\n<p style='display:none'>via&#x200b;gra"
    tokens = Tokenizer().tokenize(Message.parse(raw)).tokens
    assert tokens.head[-2:] == (b"hidden:display", b"hidden:characters")
    assert tokens.body == (b"body:viagra",)
