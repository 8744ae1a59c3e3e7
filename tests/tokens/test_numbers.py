import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.tokens.numbers import MAX_NUMBER, MAX_TEXT_BYTES, NUMBER_NAMES, extract_numbers
from tests.mutation import mutations

MAIL = b"""Received: from a.x.example by y.example with SMTP; Sun, 1 Jan 2023 00:00:01 +0000
From: ann@x.example
To: bob@y.example, =?utf-8?q?Zo=C3=AB?= <zoe@y.example>
Cc: all@y.example
Subject: =?utf-8?b?RsO8ciBEaWNo?=
Date: Sun, 1 Jan 2023 06:00:00 -0500
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


def numbers_of(raw: bytes) -> dict[str, int]:
    return dict(extract_numbers(Message.parse(raw)))


def numbers_of_text(text: str) -> dict[str, int]:
    return dict(extract_numbers(Message.from_text(text)))


def numbers_of_html(source: str) -> dict[str, int]:
    return numbers_of(b"From: a@x.example\nContent-Type: text/html; charset=utf-8\n\n" + source.encode())


def numbers_of_field(line: str) -> dict[str, int]:
    return numbers_of(f"From: a@x.example\n{line}\n\ntext".encode())


def amount(n: int) -> object:
    """The amount n on its scale, within the error of the integer logarithm."""
    return pytest.approx(50 * math.log2(1 + n), abs=5)


def share(part: int, whole: int) -> object:
    """This share on its scale, within the error of the integer logarithm."""
    return pytest.approx(100 * math.log2(1 + 1000 * part // whole), abs=10)


def test_a_whole_message_has_every_number_in_order() -> None:
    assert tuple(name for name, _ in extract_numbers(Message.parse(MAIL))) == NUMBER_NAMES


def test_sizes_and_counts_are_on_a_scale_of_doublings() -> None:
    numbers = numbers_of(MAIL)
    assert numbers["size"] == amount(39 + 59)  # bytes of the two texts
    assert (numbers["parts"], numbers["links"], numbers["recipients"]) == (100, amount(2), 100)
    assert numbers["subject.length"] == amount(len("Für Dich"))
    assert [numbers_of_text("x" * (2**n - 1))["size"] for n in range(1, 21)] == list(range(50, 1001, 50))


def test_an_amount_never_falls_as_what_is_counted_grows() -> None:
    sizes = [numbers_of_text("x" * n)["size"] for n in range(300)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0


def test_words_are_counted_and_measured() -> None:
    numbers = numbers_of_text("One, two;three - Grüße")
    assert numbers["words"] == amount(4)
    assert numbers["word.length"] == 10 * (3 + 3 + 5 + 5) // 4


def test_shares_are_of_what_is_seen() -> None:
    text = "AB cd 12 ü!!"  # ten characters, four ASCII letters
    numbers = numbers_of_text(text)
    assert numbers["capitals"] == share(2, 4)
    assert numbers["digits"] == share(2, 9)
    assert numbers["exclamations"] == share(2, 9)
    assert numbers["foreign"] == share(1, 9)
    assert numbers["markup"] == 0
    in_markup = numbers_of_html(f'<TABLE WIDTH="99"><style>P {{color: #123}} !</style><b>{text}</b>')
    same = ("capitals", "digits", "exclamations", "foreign", "words", "word.length")
    assert [in_markup[name] for name in same] == [numbers[name] for name in same]


def test_markup_is_tags_and_style_sheets() -> None:
    assert numbers_of_html("<p>" + "x" * 94 + "<br")["markup"] == share(6, 100)
    assert numbers_of_html("<STYLE>" + "x" * 85 + "</style>")["markup"] == share(100, 100)
    assert numbers_of_html("1 < 2")["markup"] == 0


def test_characters_count_whatever_their_charset() -> None:
    text = "Привет всем!"
    head = b"From: a@x.example\nContent-Type: text/plain; charset="
    encoded = [
        numbers_of(head + name.encode() + b"\n\n" + text.encode(name))
        for name in ("koi8-r", "utf-8", "windows-1251")
    ]
    for numbers in encoded:
        assert numbers["foreign"] == share(10, 11)
        assert numbers["word.length"] == 50
        assert "capitals" not in numbers


def test_what_a_message_does_not_have_is_left_out() -> None:
    numbers = numbers_of(b"From: a@x.example\n\n")
    assert numbers == {"size": 0, "parts": 50, "links": 0, "words": 0, "recipients": 0}


def test_a_bare_text_has_the_numbers_of_a_text() -> None:
    numbers = numbers_of_text("Date: tonight at 10:00? www.x.example")
    assert tuple(numbers) == NUMBER_NAMES[:1] + NUMBER_NAMES[2:10]
    assert numbers["links"] == amount(1)


@pytest.mark.parametrize(
    ("time", "point"),
    [
        ("00:00:00 +0000", (1000, 500)),
        ("06:00:00 -0500", (500, 1000)),
        ("12:00:00 +0900", (0, 500)),
        ("18:00", (500, 0)),
        ("23:50:00 +0000", (1000, 478)),
        ("0:10:00 +0000", (1000, 522)),
    ],
)
def test_the_time_of_day_is_a_point_on_a_circle_in_the_senders_zone(time: str, point: tuple[int, int]) -> None:
    numbers = numbers_of_field(f"Date: Sun, 1 Jan 2023 {time}")
    assert (numbers["hour.x"], numbers["hour.y"]) == point


@pytest.mark.parametrize("date", ["yesterday", "Sun, 1 Jan 2023", "Sun, 1 Jan 2023 25:99:00", ""])
def test_a_date_without_a_time_has_no_hour(date: str) -> None:
    assert "hour.x" not in numbers_of_field(f"Date: {date}")


def test_what_a_server_adds_or_encodes_again_changes_nothing() -> None:
    hop = b"Received: from b.example by c.example; Mon, 2 Jan 2023 07:00:00 +0900\nX-Spam-Status: Yes, 99 !!!\n"
    encoded = MAIL.replace(b"charset=utf-8\n\nHello w\xc3\xb6", b"charset=utf-8\nContent-Transfer-Encoding: "
                           b"quoted-printable\n\nHello w=C3=B6", 1)  # fmt: skip  # one piece for another
    assert encoded != MAIL
    assert (
        numbers_of(MAIL)
        == numbers_of(hop + MAIL)
        == numbers_of(encoded)
        == numbers_of(MAIL.replace(b"\n", b"\r\n"))
    )


def test_text_beyond_the_limit_is_not_read() -> None:
    head = b"From: a@x.example\n\n" + b"word " * (MAX_TEXT_BYTES // 5 + 1)
    assert numbers_of(head)["words"] == numbers_of(head + b"more " * 10_000)["words"]
    assert numbers_of(head)["size"] < numbers_of(head + b"more " * 10_000)["size"]


def assert_well_formed(raw: bytes) -> None:
    numbers = extract_numbers(Message.parse(raw))
    names = [name for name, _ in numbers]
    assert names == [name for name in NUMBER_NAMES if name in names]
    assert all(type(value) is int and 0 <= value <= MAX_NUMBER for _, value in numbers)
    assert numbers == extract_numbers(Message.parse(raw))


@given(st.binary(max_size=400))
def test_any_bytes_have_numbers(raw: bytes) -> None:
    assert_well_formed(raw)
    assert_well_formed(MAIL[: MAIL.index(b"\n\n")] + raw)
    assert_well_formed(b"From: a@x.example\nContent-Type: text/html\n\n" + raw)


@given(st.text(max_size=100))
def test_any_characters_have_numbers(text: str) -> None:
    fields = f"From: {text}\nSubject: {text}\nDate: {text}\nTo: {text}\n\n{text}"
    assert_well_formed(fields.encode("utf-8", "surrogatepass"))


def test_broken_mail_has_numbers() -> None:
    for raw in mutations([MAIL], 300):
        assert_well_formed(raw)


@pytest.mark.parametrize(
    "piece", [b"<", b"<a ", b"<style", b"<style></style>", b"</style", b"<!--", b"://", b"\xff", b"a", b"\n", b"!"]
)
def test_a_megabyte_of_pathological_input_has_numbers(piece: bytes) -> None:
    assert_well_formed(b"From: a@x.example\nContent-Type: text/html\n\n" + piece * (1_000_000 // len(piece)))
    assert_well_formed(b"Subject: " + piece * (1_000_000 // len(piece)) + b"\n\n")
