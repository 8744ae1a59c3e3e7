"""Which messages a piece of feedback mail is about."""

from __future__ import annotations

from nbstream.mail import headers
from nbstream.mail.forward import messages_meant

INNER = "Subject: spam\r\n\r\nbuy now\r\n"
TEXT = "Content-Type: text/plain\r\n\r\nsee attached"
RFC822 = "Content-Type: message/rfc822\r\n\r\n"


def multipart(kind: str, *parts: str) -> bytes:
    body = "".join(f"--b\r\n{part}\r\n" for part in parts)
    return f"Subject: Fwd\r\nContent-Type: multipart/{kind}; boundary=b\r\n\r\n{body}--b--\r\n".encode()


def meant(raw: bytes, max_messages: int = 100) -> list[str] | None:
    found = messages_meant(raw, max_messages)
    return None if found is None else [each.decode() for each in found]


def test_a_forward_means_its_attached_messages() -> None:
    assert meant(multipart("mixed", TEXT, RFC822 + INNER, RFC822 + "Subject: two\r\n\r\n")) == [
        INNER,
        "Subject: two\r\n\r\n",
    ]


def test_a_digest_needs_no_type_on_its_messages() -> None:
    assert meant(multipart("digest", "\r\n" + INNER)) == [INNER]


def test_an_abuse_report_means_the_message_it_carries() -> None:
    report = "Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\n"
    raw = multipart("report; report-type=feedback-report", TEXT, report, RFC822 + INNER)

    assert meant(raw) == [INNER]


def test_a_bounce_is_itself_the_message() -> None:
    raw = multipart("report; report-type=delivery-status", TEXT, RFC822 + INNER)

    assert meant(raw) == [raw.decode()]


def test_a_mail_without_attached_messages_is_itself_the_message() -> None:
    alternative = multipart("alternative", TEXT, RFC822 + INNER)

    assert meant(b"Subject: x\r\n\r\nbody") == ["Subject: x\r\n\r\nbody"]
    assert meant(multipart("mixed", TEXT)) == [multipart("mixed", TEXT).decode()]
    assert meant(alternative) == [alternative.decode()]


def test_a_message_attached_in_base64_is_decoded() -> None:
    part = (
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nU3ViamVjdDogc3BhbQoKYnV5IG5vdwo="
    )

    assert meant(multipart("mixed", part)) == ["Subject: spam\r\n\r\nbuy now\r\n"]


def test_more_messages_or_parts_than_permitted_are_none_so_that_none_is_silently_left_out() -> None:
    assert meant(multipart("mixed", *[RFC822 + INNER] * 6), max_messages=5) is None
    assert meant(multipart("mixed", *[TEXT] * 50, RFC822 + INNER), max_messages=5) is None
    assert meant(multipart("mixed", *[TEXT] * 9, RFC822 + INNER), max_messages=5) == [INNER]


def test_an_abuse_report_without_a_message_means_none() -> None:
    report = "Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\n"

    assert meant(multipart("report; report-type=feedback-report", TEXT, report)) == []


def test_a_forward_inside_the_attached_message_is_left_alone() -> None:
    inner = multipart("mixed", RFC822 + INNER).replace(b"--b", b"--c").replace(b"=b", b"=c").decode()

    assert meant(multipart("mixed", RFC822 + inner)) == [headers.canonical(inner.encode()).decode()]
