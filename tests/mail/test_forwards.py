"""Which messages a feedback mail contains, and the original message in a report of SpamAssassin."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.mail.forwards import (
    ForwardedContent,
    is_addressed_to,
    is_redirected,
    original_of,
    parse_forwarded_content,
)
from tests.deploy.old_filters import GTUBE
from tests.harness.daemon import command

INNER = "Subject: spam\r\n\r\nbuy now\r\n"
TEXT = "Content-Type: text/plain\r\n\r\nsee attached"
RFC822 = "Content-Type: message/rfc822\r\n\r\n"


def multipart(kind: str, *parts: str) -> bytes:
    body = "".join(f"--b\r\n{part}\r\n" for part in parts)
    return f"Subject: Fwd\r\nContent-Type: multipart/{kind}; boundary=b\r\n\r\n{body}--b--\r\n".encode()


def contained_messages(raw: bytes, max_messages: int = 100) -> list[str] | None:
    """The messages that a feedback mail contains, or None if there are too many."""
    content = parse_forwarded_content(raw, max_messages)
    return None if content is None else [message.decode() for message in content.messages]


def test_a_forward_contains_its_attached_messages() -> None:
    assert contained_messages(multipart("mixed", TEXT, RFC822 + INNER, RFC822 + "Subject: two\r\n\r\n")) == [
        INNER,
        "Subject: two\r\n\r\n",
    ]


def test_a_digest_needs_no_type_on_its_messages() -> None:
    assert contained_messages(multipart("digest", "\r\n" + INNER)) == [INNER]


def test_an_abuse_report_contains_its_message() -> None:
    report = "Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\n"
    raw = multipart("report; report-type=feedback-report", TEXT, report, RFC822 + INNER)

    assert contained_messages(raw) == [INNER]


def test_a_bounce_contains_nothing() -> None:
    assert (
        parse_forwarded_content(multipart("report; report-type=delivery-status", TEXT, RFC822 + INNER), 9)
        == ForwardedContent()
    )


def test_a_mail_without_attached_messages_contains_nothing() -> None:
    assert parse_forwarded_content(b"Subject: x\r\n\r\nbody", 9) == ForwardedContent()
    assert parse_forwarded_content(multipart("mixed", TEXT), 9) == ForwardedContent()
    assert parse_forwarded_content(multipart("alternative", TEXT, RFC822 + INNER), 9) == ForwardedContent()


def test_a_message_attached_in_base64_is_decoded() -> None:
    part = (
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nU3ViamVjdDogc3BhbQoKYnV5IG5vdwo="
    )

    assert contained_messages(multipart("mixed", part)) == ["Subject: spam\r\n\r\nbuy now\r\n"]


def test_more_messages_or_parts_than_permitted_are_none_so_that_none_is_silently_left_out() -> None:
    assert contained_messages(multipart("mixed", *[RFC822 + INNER] * 6), max_messages=5) is None
    assert contained_messages(multipart("mixed", *[TEXT] * 50, RFC822 + INNER), max_messages=5) is None
    assert contained_messages(multipart("mixed", *[TEXT] * 9, RFC822 + INNER), max_messages=5) == [INNER]


def nested(kind: str, boundary: str, *parts: str) -> str:
    body = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary={boundary}\r\n\r\n{body}--{boundary}--\r\n"


EML = 'Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename="A.EML"\r\n\r\n'
SIGNATURE = "Content-Type: application/pkcs7-signature\r\n\r\nMIIB"


@pytest.mark.parametrize(
    "raw",
    [
        multipart("signed", nested("mixed", "m", TEXT, RFC822 + INNER), SIGNATURE),
        multipart("mixed", nested("mixed", "m", TEXT, RFC822 + INNER), TEXT),  # a footer
        multipart("mixed", nested("signed", "s", nested("mixed", "m", RFC822 + INNER), SIGNATURE), TEXT),
        multipart("related", TEXT, RFC822 + INNER),
        multipart("mixed", "Content-Type: message/global\r\n\r\n" + INNER),
        multipart("mixed", EML + INNER),
        ("Subject: Fwd\r\n" + RFC822 + INNER).encode(),
        multipart(
            "signed",
            "Content-Type: message/rfc822; forwarded=no\r\n\r\nSubject: Fwd\r\n"
            + nested("mixed", "m", RFC822 + INNER),
            SIGNATURE,
        ),
        multipart(
            'mixed; protected-headers="v1"', "Content-Type: text/rfc822-headers\r\n\r\nSubject: x", RFC822 + INNER
        ),
    ],
)
def test_a_forward_is_found_in_what_programs_put_around_it(raw: bytes) -> None:
    assert contained_messages(raw) == [INNER]


def test_parts_are_counted_through_all_levels_and_levels_are_bounded() -> None:
    many = nested("mixed", "m", *[TEXT] * 40)
    assert contained_messages(multipart("mixed", many, RFC822 + INNER), max_messages=4) is None
    deep = RFC822 + INNER
    for level in range(100):
        deep = nested("mixed", f"x{level}x", deep)
    assert contained_messages(("Subject: x\r\n" + deep).encode()) == []


def test_an_abuse_report_may_contain_no_message() -> None:
    report = "Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\n"

    content = parse_forwarded_content(multipart("report; report-type=feedback-report", TEXT, report), 9)
    assert content == ForwardedContent(feedback_type="abuse")


def test_a_report_has_its_type_and_perhaps_only_the_header_of_its_message() -> None:
    report = "Content-Type: message/feedback-report\r\n\r\nUser-Agent: x/1\r\nFEEDBACK-type: Not-Spam (x)\r\n"
    head = "Content-Type: text/rfc822-headers; charset=utf-8\r\n\r\nSubject: one"

    content = parse_forwarded_content(multipart("report; report-type=feedback-report", TEXT, report, head), 9)

    assert content == ForwardedContent(headers_only=(b"Subject: one",), feedback_type="not-spam")
    assert parse_forwarded_content(
        multipart("report; report-type=feedback-report", TEXT, head), 9
    ) == ForwardedContent(headers_only=(b"Subject: one",), feedback_type="")
    assert parse_forwarded_content(multipart("mixed", TEXT, head), 9) == ForwardedContent()


def test_resent_fields_say_that_a_mail_was_redirected() -> None:
    assert is_redirected(b"Resent-From: ann@example.org\r\nFrom: x@y\r\n\r\n")
    assert not is_redirected(b"From: x@y\r\n\r\nResent-From: ann@example.org\r\n")


@pytest.mark.parametrize(
    ("head", "written"),
    [
        ("To: spam@nbstream.invalid", True),
        ("To: ann@x\r\nCc: =?utf-8?q?J=C3=BCnk?= <SPAM@nbstream.invalid>, bob@y", True),
        ("X-Forwarded-Message-Id: <1@x>", True),
        ("To: no-spam@nbstream.invalid", False),
        ("To: spam@nbstream.invalid.example", False),
        ("From: spam@nbstream.invalid\r\nTo: ann@example.org", False),
        ("Subject: Fwd: x\r\nIn-Reply-To: <1@x>", False),
    ],
)
def test_who_a_mail_was_written_to_is_in_its_own_header(head: str, written: bool) -> None:
    raw = f"{head}\r\n\r\nTo: spam@nbstream.invalid\r\n".encode()

    assert is_addressed_to(raw, {"spam@nbstream.invalid", "ham@nbstream.invalid"}) is written


HEAD = "Subject: Prize\nFrom: win@offers.example\nMessage-ID: <1@offers.example>\n"
SPAM = f"{HEAD}\nClaim it now.\n{GTUBE}\n".encode()
TYPE = b'Content-Type: multipart/mixed; boundary="----------=_6B0A6F6E.52946FA8"\n'
REPORT = b"X-Spam-Checker-Version: SpamAssassin 4.0.1\n" + TYPE + b"\n"
PART = b"\n------------=_6B0A6F6E.52946FA8\nContent-Type: message/rfc822; x-spam-type=original\n\n"
END = b"\n------------=_6B0A6F6E.52946FA8--\n"

Wrap = Callable[[bytes, int], bytes]


@pytest.fixture
def wrap(program: Callable[[str], str], tmp_path: Path) -> Wrap:
    """What the real program makes of spam with a value of ``report_safe``."""

    def run(raw: bytes, report_safe: int) -> bytes:
        words = [program("spamassassin"), "--local", "--cf=use_bayes 0", f"--cf=report_safe {report_safe}"]
        environment = {"HOME": str(tmp_path)}
        return subprocess.run(
            words, input=raw, capture_output=True, env=environment, check=True, timeout=60
        ).stdout

    return run


@pytest.mark.parametrize(
    ("raw", "report_safe"),
    [(SPAM, 1), (SPAM + b"\n\n", 2), (SPAM + b"\n------------=_6B0A6F6E.52946FA8--\nmore\n", 1)],
)
def test_a_report_is_taken_off_byte_for_byte(wrap: Wrap, raw: bytes, report_safe: int) -> None:
    report = wrap(raw, report_safe)

    assert b"Content preview" in report
    assert original_of(report) == raw
    assert original_of(report.replace(b"\n", b"\r\n")) == raw.replace(b"\n", b"\r\n")  # from an IMAP server


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        SPAM,
        TYPE + PART + SPAM + END,  # not of SpamAssassin
        b"Subject: forwarded\n\n" + REPORT + PART + SPAM + END,
        REPORT + PART + SPAM,  # cut off
        REPORT + END + PART + SPAM,
        REPORT + PART * 2000,
    ],
)
def test_any_other_message_stays_as_it_is(raw: bytes) -> None:
    assert original_of(raw) == raw


def test_what_lies_in_junk_is_learned_as_it_came(wrap: Wrap, tmp_path: Path, redis_binary: Path) -> None:
    config = tmp_path / "nbstream.yaml"
    config.write_text(f"state_dir: {tmp_path / 'state'}\n")
    for name, raw in (("wrapped", wrap(SPAM, 1)), ("plain", SPAM)):
        (tmp_path / name).write_bytes(raw)

    assert "1 learned as spam" in command("learn", "-c", config, "spam", tmp_path / "wrapped").stdout
    assert "1 already" in command("learn", "-c", config, "spam", tmp_path / "plain").stdout
