import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.tokens.attributes import ATTRIBUTE_VALUES, extract_attributes
from nbstream.tokens.header_tokens import is_added_on_arrival
from tests.mutation import mutations

MAIL = b"""Received: from b.x.example by y.example with SMTP; Sun, 1 Jan 2023 00:00:02 +0000
Received: from a.x.example by b.x.example with SMTP; Sun, 1 Jan 2023 00:00:01 +0000
From: ann@x.example
To: bob@y.example
Subject: Hello there
Date: Sun, 1 Jan 2023 01:00:00 +0100
Message-ID: <1@x.example>
User-Agent: Mutt/2.2.9
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain; charset=UTF-8
Content-Transfer-Encoding: 8bit

Gr\xc3\xbc\xc3\x9fe
--b
Content-Type: application/octet-stream; name="Order.PDF.exe"
Content-Transfer-Encoding: base64

TVqQAAMA
--b--
"""


def attributes_of(raw: bytes) -> dict[str, str]:
    return dict(extract_attributes(Message.parse(raw)))


def attributes_of_fields(*lines: str, body: str = "text") -> dict[str, str]:
    return attributes_of("\n".join(("From: a@x.example", *lines, "", body)).encode())


def attributes_of_part(*lines: str) -> dict[str, str]:
    return attributes_of_fields(
        "Content-Type: multipart/mixed; boundary=b", body="\n".join(("--b", *lines, "", "x", "--b--"))
    )


def test_a_message_has_each_attribute_once_in_order() -> None:
    assert extract_attributes(Message.parse(MAIL)) == (
        ("type", "multipart/mixed"),
        ("body", "plain"),
        ("charset", "unicode"),
        ("encoding", "8bit"),
        ("program", "terminal"),
        ("script", "marked"),
        ("zone", "east"),
        ("reply", "fresh"),
        ("hops", "2"),
        ("list", "none"),
        ("attachment", "program"),
        ("subject", "sentence"),
        ("priority", "none"),
        ("to", "one"),
    )
    assert tuple(dict(extract_attributes(Message.parse(MAIL)))) == tuple(ATTRIBUTE_VALUES)


def test_the_values_of_an_attribute_are_distinct_and_end_with_other() -> None:
    for values in ATTRIBUTE_VALUES.values():
        assert len(set(values)) == len(values)
        assert values[-1] == "other"


def test_what_is_missing_is_none() -> None:
    attributes = attributes_of(b"From: a@x.example\n\n")
    missing = {name for name, value in attributes.items() if value == "none"}
    assert missing == set(ATTRIBUTE_VALUES) - {"body", "reply"}  # an empty body is plain text (RFC 2045 5.2)


def test_a_bare_text_has_a_script_alone() -> None:
    assert extract_attributes(Message.from_text("Привет: выиграй приз")) == (("script", "cyrillic"),)
    assert extract_attributes(Message.parse(b"URGENT: you have won")) == (("script", "latin"),)


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["Content-Type: text/plain"], "plain"),
        (["Content-Type: text/html"], "html"),
        (["Content-Type: text/calendar"], "other"),
        (["Content-Type: image/gif"], "none"),
    ],
)
def test_the_body_is_what_the_text_is_sent_as(lines: list[str], value: str) -> None:
    assert attributes_of_part(*lines)["body"] == value


def test_html_that_is_declared_plain_is_disguised() -> None:
    assert attributes_of_fields("Content-Type: text/plain", body="<HTML><body>x")["body"] == "disguised"


def test_a_text_in_two_forms_is_both() -> None:
    body = "--b\nContent-Type: text/plain\n\nx\n--b\nContent-Type: text/html\n\nx\n--b--"
    assert attributes_of_fields("Content-Type: multipart/alternative; boundary=b", body=body)["body"] == "both"


@pytest.mark.parametrize(
    ("charset", "family"),
    [
        ("us-ascii", "ascii"), ("UTF-8", "unicode"), ("Windows-1252", "western"), ("koi8-r", "cyrillic"),
        ("GB2312", "chinese"), ("iso-2022-jp", "japanese"), ("x-unknown", "other"), ('""', "none"),
    ],
)  # fmt: skip  # a table
def test_charsets_of_one_family_are_one_value(charset: str, family: str) -> None:
    assert attributes_of_fields(f"Content-Type: text/plain; charset={charset}")["charset"] == family


@pytest.mark.parametrize(
    ("line", "family"),
    [
        ("X-Mailer: Microsoft Outlook Express 6.00.2900.2180", "outlook express"),
        ("X-Mailer: Microsoft Office Outlook, Build 11.0.5510", "outlook"),
        ("X-Mailer: Apple Mail (2.752.3)", "apple"),
        ("User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:102.0) Thunderbird/102.8.0", "mozilla"),
        ("User-Agent: Roundcube Webmail/1.6.1", "webmail"),
        ("X-Mailer: PHPMailer 6.8.0", "library"),
        ("X-Mailer: qwzkpt 1.0", "other"),
        ("X-Mailer:", "none"),
    ],
)
def test_programs_are_grouped_by_family(line: str, family: str) -> None:
    assert attributes_of_fields(line)["program"] == family


@pytest.mark.parametrize(
    ("zone", "value"),
    [
        ("-0700 (PDT)", "west"), ("+0000", "zero"), ("GMT", "zero"), ("-0000", "unknown"), ("+0300", "east"),
        ("+0530", "far east"), ("EST", "west"), ("+0480", "other"), ("--800", "other"), ("+9900", "other"),
        ("", "other"), ("XYZ", "other"),
    ],
)  # fmt: skip  # a table
def test_the_zone_of_the_date_is_a_side_of_greenwich(zone: str, value: str) -> None:
    assert attributes_of_fields(f"Date: Sun, 08 Apr 2007 21:00:48 {zone}")["zone"] == value


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["Subject: hello"], "fresh"),
        (["Subject: RE: hello", "In-Reply-To: <1@x>"], "answer"),
        (["Subject: Re[2]: hello"], "claimed answer"),
        (["Subject: Fwd: hello", "References: <1@x>"], "forward"),
        (["Subject: hello", "References: <1@x>"], "other"),
    ],
)
def test_an_answer_without_reference_has_a_value_of_its_own(lines: list[str], value: str) -> None:
    assert attributes_of_fields(*lines)["reply"] == value


@pytest.mark.parametrize(("count", "value"), [(0, "none"), (1, "1"), (6, "6"), (7, "other"), (150, "other")])
def test_received_fields_are_counted_up_to_six(count: int, value: str) -> None:
    assert attributes_of_fields(*["Received: from a by b"] * count)["hops"] == value


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["List-Id: <l.x.example>", "List-Unsubscribe: <mailto:l@x.example>"], "list"),
        (["List-Unsubscribe: <https://x.example>"], "newsletter"),
        (["Precedence: Bulk"], "bulk"),
        (["Precedence: first-class"], "other"),
    ],
)
def test_lists_newsletters_and_bulk_mail_have_different_values(lines: list[str], value: str) -> None:
    assert attributes_of_fields(*lines)["list"] == value


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["Content-Type: image/png"], "image"),
        (["Content-Type: application/pdf; name=a.pdf"], "document"),
        (["Content-Type: text/plain; name=invoice.html"], "page"),
        (["Content-Type: application/octet-stream"], "other"),
        (["Content-Type: message/rfc822", "", "Subject: x"], "message"),
        (["Content-Type: application/x-zip", "Content-Disposition: attachment; filename=a.ZIP"], "archive"),
        (["Content-Type: text/plain"], "none"),
    ],
)
def test_attachments_are_classified_by_name_else_by_type(lines: list[str], value: str) -> None:
    assert attributes_of_part(*lines)["attachment"] == value


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        ("FREE OFFER 100%", "capitals"), ("hello there", "lower"), ("Free Offer", "title"),
        ("Re: Free offer", "sentence"), ("Re: Fwd: FREE", "capitals"), ("[list] Hello you", "other"),
        ("12345", "other"), ("Re:", "none"), ("=?utf-8?b?w4RIUkU=?=", "capitals"),
    ],
)  # fmt: skip  # a table
def test_the_subject_is_classified_by_its_case(subject: str, value: str) -> None:
    assert attributes_of_fields(f"Subject: {subject}")["subject"] == value


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X-Priority: 1 (Highest)", "high"),
        ("X-Priority: 3", "normal"),
        ("Importance: Low", "low"),
        ("X-Priority: urgent", "other"),
    ],
)
def test_priorities_are_recognised(line: str, value: str) -> None:
    assert attributes_of_fields(line)["priority"] == value


@pytest.mark.parametrize(
    ("to", "value"),
    [
        ("a@x.example", "one"), ("a@x.example, B <b@x.example>", "several"),
        ("undisclosed-recipients:;", "undisclosed"), ("friends", "other"), ("", "none"),
    ],
)  # fmt: skip  # a table
def test_recipients_are_counted(to: str, value: str) -> None:
    assert attributes_of_fields(f"To: {to}")["to"] == value


@pytest.mark.parametrize(
    "name", ["X-Spam-Status", "X-Virus-Scanned", "Status", "Delivered-To", "X-Keywords", "Authentication-Results"]
)
def test_what_a_filter_or_mailbox_wrote_changes_nothing(name: str) -> None:
    assert is_added_on_arrival(name.lower())
    assert attributes_of(name.encode() + b": Yes, 1 high bulk Mutt re: +0300\n" + MAIL) == attributes_of(MAIL)


def test_line_ends_make_no_difference() -> None:
    assert attributes_of(MAIL) == attributes_of(MAIL.replace(b"\n", b"\r\n"))


def assert_closed(raw: bytes) -> None:
    message = Message.parse(raw)
    attributes = extract_attributes(message)
    assert [name for name, _ in attributes] == (list(ATTRIBUTE_VALUES) if message.is_mail else ["script"])
    assert all(value in ATTRIBUTE_VALUES[name] for name, value in attributes)
    assert attributes == extract_attributes(Message.parse(raw))


@given(st.binary(max_size=400))
def test_any_bytes_have_values_of_the_lists(raw: bytes) -> None:
    assert_closed(raw)
    assert_closed(MAIL[: MAIL.index(b"\n\n")] + raw)


@given(st.text(max_size=60))
def test_any_field_has_values_of_the_lists(text: str) -> None:
    for name in ("Content-Type", "Date", "Subject", "To", "X-Mailer", "X-Priority", "Precedence", "Importance"):
        assert_closed(f"From: a@x.example\n{name}: {text}\n\n{text}".encode("utf-8", "surrogatepass"))


def test_broken_mail_has_values_of_the_lists() -> None:
    for raw in mutations([MAIL], 300):
        assert_closed(raw)


@pytest.mark.parametrize(
    ("start", "filling", "times"),
    [
        (b"Subject: ", "Re: ", 250_000),
        (b"Date: ", "1:00", 250_000),
        (b"To: ", "a@b,", 250_000),
        (b"", "Received: x\n", 80_000),
        (b"Content-Type: text/plain; charset=utf-8\n\n", "票", 300_000),
        (b"Content-Type: text/plain; charset=utf-8\n\n", "\u0301", 400_000),
    ],
)
def test_a_megabyte_of_pathological_input_has_values(start: bytes, filling: str, times: int) -> None:
    assert_closed(start + filling.encode() * times + b"\n\n")
