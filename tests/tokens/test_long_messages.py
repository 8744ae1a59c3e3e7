"""The end of a long message is read too, whatever stands before it; the key stays what it is."""

import base64
import quopri

import pytest

from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.tokens.test_tokenizer import assert_well_formed

FIELDS = b"From: a@x.example\r\nSubject: s\r\n"
HTML = FIELDS + b"Content-Type: text/html; charset=utf-8\r\n"
HAM = b"<p>Dear colleagues, the minutes of our meeting follow.</p>\r\n"
SPAM = '<p>Cheap pílls <a href="http://casino.example/order">order</a></p>\r\n'.encode()
EXPECTED = {b"body:cheap", "body:pílls".encode(), b"body:order", b"url:casino.example", b"url.path:order"}
MEGABYTE = 1 << 20


def body_tokens(raw: bytes, limits: MessageLimits | None = None) -> set[bytes]:
    tokens = Tokenizer().tokenize(Message.parse(raw, limits)).tokens
    assert_well_formed(tokens)
    return set(tokens.body)


def with_padding(size: int, end: bytes) -> bytes:
    """HTML with a comment of words of about this size, after which ``end`` stands."""
    line = b"agenda minutes budget review lunch project holiday %07d\r\n"
    lines = b"".join(line % n for n in range(size // len(line % 0)))
    return HAM + b"<!--\r\n" + lines + b"-->\r\n" + end


@pytest.mark.parametrize("size", [900_000, MEGABYTE, 3 * MEGABYTE])
def test_what_stands_behind_a_long_comment_is_read(size: int) -> None:
    assert body_tokens(HTML + b"\r\n" + with_padding(size, SPAM)) >= EXPECTED


def test_the_end_is_read_in_each_transfer_encoding() -> None:
    html = with_padding(MEGABYTE, SPAM)
    quoted = quopri.encodestring(html)
    assert body_tokens(HTML + b"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + quoted) >= EXPECTED
    encoded = base64.b64encode(html)
    for width in (76, 75, 61, 12):  # of 75 characters no line begins a group of four
        lines = b"\r\n".join(encoded[start : start + width] for start in range(0, len(encoded), width))
        assert body_tokens(HTML + b"Content-Transfer-Encoding: base64\r\n\r\n" + lines) >= EXPECTED


PICTURE = base64.encodebytes(bytes(range(256)) * 8_000)
MIXED = FIELDS + b"Content-Type: multipart/mixed; boundary=outer\r\n\r\n--outer\r\n\r\nDear colleagues\r\n"
PICTURE_PART = b"--outer\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n" + PICTURE


@pytest.mark.parametrize("encoding", ["7bit", "base64", "quoted-printable"])
@pytest.mark.parametrize("filling", [b"", b"<p>and more</p>\r\n" * 20_000], ids=["short", "beyond the end"])
def test_a_part_behind_a_large_picture_is_read(encoding: str, filling: bytes) -> None:
    content = filling + SPAM
    if encoding == "base64":
        content = base64.encodebytes(content)
    elif encoding == "quoted-printable":
        content = quopri.encodestring(content)
    header = b"--outer\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: %s\r\n\r\n"
    raw = MIXED + PICTURE_PART + header % encoding.encode() + content + b"\r\n--outer--\r\n"

    assert body_tokens(raw) >= EXPECTED


def test_the_end_of_a_bare_text_is_read() -> None:
    assert {b"body:casino", b"body:ham"} <= body_tokens(b"ham " + b"word " * 300_000 + b"casino")


def test_parts_beyond_the_limit_are_read_at_the_end() -> None:
    parts = b"--outer\r\n\r\nham\r\n" * 300
    raw = MIXED + parts + b"--outer\r\nContent-Type: text/html\r\n\r\n" + SPAM + b"--outer--\r\n"
    assert body_tokens(raw) >= EXPECTED


def test_words_and_links_behind_thousands_of_words_are_read() -> None:
    filling = b" ".join(b"word%d" % n for n in range(5_000))
    links = b" ".join(b'<a href="http://h%d.example/">x</a>' % n for n in range(200))
    tokens = body_tokens(HTML + b"\r\n" + HAM + filling + links + SPAM)
    assert tokens >= EXPECTED
    assert {b"body:dear", b"body:minutes", b"body:word1", b"url:h1.example"} <= tokens


def test_what_stands_between_thousands_of_words_is_read_in_proportion() -> None:
    before, after = (b" ".join(b"%s%d" % (name, n) for n in range(2_500)) for name in (b"before", b"after"))
    between = {b"body:offer%d" % n for n in range(200)}
    tokens = body_tokens(FIELDS + b"\r\n" + b" ".join((before, *(b"offer%d" % n for n in range(200)), after)))
    assert len(between & tokens) >= 40


@pytest.mark.parametrize("odd_word", ["x" * 25, "x" * 400, "日", "日本語", "é"])
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_one_long_or_unspaced_word_changes_nothing_about_that(odd_word: str, place: str) -> None:
    before, after = (" ".join(f"{name}{n}" for n in range(1_100)) for name in ("before", "after"))
    between = " ".join(f"offer{n}" for n in range(30))
    texts = {"before": (odd_word, before, between, after), "after": (before, between, after, odd_word)}
    text = " ".join(texts.get(place, (before, odd_word, between, after)))
    tokens = body_tokens(FIELDS + b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + text.encode())
    assert len({b"body:offer%d" % n for n in range(30)} & tokens) >= 20


def test_the_tokens_stay_within_their_limit() -> None:
    raw = HTML + b"\r\n" + with_padding(2 * MEGABYTE, SPAM)
    tokens = Tokenizer(TokenizerOptions(max_tokens=100)).tokenize(Message.parse(raw)).tokens
    assert len(tokens.all) <= 100
    assert b"url:casino.example" in tokens.body


def test_the_end_has_no_part_in_the_key() -> None:
    spam, ham = (Message.parse(HTML + b"\r\n" + with_padding(2 * MEGABYTE, end)) for end in (SPAM, HAM))
    assert spam.unread_end != ham.unread_end
    assert spam.key == ham.key


def test_no_more_than_an_eighth_is_read_from_the_end() -> None:
    raw = FIELDS + b"\r\n" + b"hidden " * 400_000 + b"\r\n" + b"word " * 30_000
    assert len(Message.parse(raw).unread_end) <= MEGABYTE // 8 + 10
