"""What a piece of feedback mail means."""

from __future__ import annotations

import pytest

from nbstream.errors import FeedbackRefused
from nbstream.policy.header import MessageReader
from nbstream.server.feedback_mailbox import MAX_MESSAGES, FeedbackContent, parse_feedback_mail
from nbstream.server.smtp_replies import error_reply
from tests.harness.mutation import mutations

SPAM, HAM = "spam@nbstream.invalid", "ham@nbstream.invalid"
ID, OTHER = "abcdefghijklmnopqrstuvwx", "234567abcdefghijklmnopqr"
OWN = 'X-Nbstream: ham; probability=0.200000; reason="x";\r\n\tmodel=default; id='
INNER = "Subject: prize\r\n\r\nbuy now\r\n"
RFC822 = f"Content-Type: message/rfc822\r\n\r\n{INNER}"
QUOTED = f"\r\n> Subject: prize\r\n> {OWN}{ID}\r\n>\r\n> buy now\r\n"


def read(raw: str | bytes, label: str = "spam") -> FeedbackContent:
    content = raw if isinstance(raw, bytes) else raw.encode()
    return parse_feedback_mail(content, label, {SPAM, HAM}, MessageReader())


def refusal(raw: str | bytes, label: str = "spam") -> str:
    with pytest.raises(FeedbackRefused) as caught:
        read(raw, label)
    assert str(error_reply(caught.value)).startswith(("550 5.6.0 ", "552 5.3.4 "))
    assert error_reply(caught.value).text.isascii()
    assert len(str(error_reply(caught.value))) < 500  # of the 512 of RFC 5321 4.5.3.1.5
    return str(caught.value)


def multipart(kind: str, *parts: str) -> str:
    body = "".join(f"--b\r\n{part}\r\n" for part in parts)
    return f"To: {SPAM}\r\nSubject: Fwd\r\nContent-Type: multipart/{kind}; boundary=b\r\n\r\n{body}--b--\r\n"


def report(kind: str, *parts: str) -> str:
    feedback = f"Content-Type: message/feedback-report\r\n\r\nFeedback-Type: {kind}\r\nVersion: 1\r\n"
    return multipart("report; report-type=feedback-report", "\r\nAbuse.", feedback, *parts)


def head(*ids: str) -> str:
    fields = "".join(f"{OWN}{message_id}\r\n" for message_id in ids)
    return f"Content-Type: text/rfc822-headers\r\n\r\nReceived: x\r\n{fields}Subject: prize\r\n"


def test_a_forward_means_what_it_attaches_whatever_ids_its_text_quotes() -> None:
    assert read(multipart("mixed", QUOTED, RFC822, RFC822)) == FeedbackContent((INNER.encode(), INNER.encode()))


def test_an_inline_forward_means_the_id_that_it_quotes() -> None:
    assert read(f"To: {SPAM}\r\nSubject: Fwd: prize\r\n{QUOTED}") == FeedbackContent(id=ID)
    assert read(multipart("mixed", QUOTED, "Content-Type: image/png\r\n\r\nx")) == FeedbackContent(id=ID)
    assert read(
        multipart("alternative", QUOTED, f"Content-Type: text/html\r\n\r\n<p>{QUOTED}")
    ) == FeedbackContent(id=ID)
    assert read(f"Subject: Re: report\r\n{QUOTED}") == FeedbackContent(id=ID)


def test_several_ids_are_refused() -> None:
    text = QUOTED + QUOTED.replace(ID, OTHER)

    assert refusal(f"To: {SPAM}\r\n{text}") == (
        "This mail quotes the ids of 2 messages, instead of the one that is meant; "
        "please forward it as an attachment"
    )
    assert "ids of 2 messages" in refusal(report("abuse", head(ID, OTHER)))


def test_a_mail_written_to_the_address_is_never_learned_itself() -> None:
    assert refusal(f"From: Ann <ann@example.org>\r\nTo: {HAM}\r\n\r\nFwd: please\r\n").startswith(
        "This mail neither attaches a message nor quotes its X-Nbstream field"
    )
    assert "please forward it as an attachment" in refusal("X-Forwarded-Message-Id: <1@x>\r\n\r\nbuy now\r\n")


@pytest.mark.parametrize("sign", ["Resent-To: spam@nbstream.invalid", f"{OWN}{OTHER}"])
def test_a_redirected_message_is_itself_whatever_its_text_quotes(sign: str) -> None:
    raw = f"{sign}\r\nTo: ann@example.org\r\nSubject: prize\r\n{QUOTED}".encode()

    assert read(raw) == FeedbackContent((raw,))


@pytest.mark.parametrize("kind", ["mixed", "digest"])
def test_a_redirected_message_is_itself_whatever_its_sender_has_attached(kind: str) -> None:
    """Else spam that carries a newsletter would teach that the newsletter is spam."""
    spam = multipart(kind, RFC822).replace(f"To: {SPAM}", "To: ann@example.org")
    raw = f"Resent-To: {SPAM}\r\n{spam}".encode()

    assert read(raw) == FeedbackContent((raw,))


def test_a_checked_mail_with_a_message_attached_that_was_not_written_to_us_is_refused() -> None:
    """A mail server that redirects adds no field: else spam would teach what its sender has attached."""
    spam = multipart("mixed", RFC822).replace(f"To: {SPAM}", "To: ann@example.org")

    assert "it cannot be told which of the two is meant" in refusal(f"{OWN}{OTHER}\r\n{spam}")
    assert read(f"{OWN}{OTHER}\r\n{multipart('mixed', RFC822)}") == FeedbackContent((INNER.encode(),))


def test_a_forward_or_a_report_that_is_redirected_is_still_one() -> None:
    seen_by_abuse = report("abuse", RFC822).replace(f"To: {SPAM}", "To: abuse@example.org")

    for carrying in (multipart("mixed", RFC822), seen_by_abuse):
        assert read(f"Resent-To: {SPAM}\r\n{carrying}") == FeedbackContent((INNER.encode(),))


@pytest.mark.parametrize(
    "raw",
    [
        INNER,
        "Subject: Fwd: prize\r\nIn-Reply-To: <1@x>\r\n\r\n> quoted\r\n",
        "Subject: x\r\n\r\n",
        "Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n",
        b"Subject: \xff\xfe\r\nContent-Type: text/plain; charset=no-such\r\n\r\n\x00\x80\xff\r\n",
        b"\xde\xad\xbe\xef",
    ],
)
def test_any_other_mail_is_itself_the_message_short_undecodable_or_without_text(raw: str | bytes) -> None:
    assert read(raw) == FeedbackContent((raw if isinstance(raw, bytes) else raw.encode(),))


def test_a_report_means_its_message_or_the_id_in_its_header() -> None:
    assert read(report("abuse", RFC822)) == FeedbackContent((INNER.encode(),))
    assert read(report("abuse", head(ID))) == FeedbackContent(id=ID)
    assert read(report("not-spam", head(ID)), "ham") == FeedbackContent(id=ID)
    assert read(report("abuse", RFC822, head(ID))) == FeedbackContent((INNER.encode(),))


@pytest.mark.parametrize(
    ("kind", "label"),
    [("not-spam", "ham"), ("abuse", "spam"), ("fraud", "spam"), ("virus", "spam"), ("Abuse", "spam")],
)
def test_a_report_that_contradicts_the_address_is_refused(kind: str, label: str) -> None:
    other = {"spam": "ham", "ham": "spam"}[label]

    assert read(report(kind, RFC822), label) == FeedbackContent((INNER.encode(),))
    assert refusal(report(kind, RFC822), other) == (
        f"This report says {kind.lower()}, but this address learns {other}: send it to the one for {label}"
    )


def test_a_report_without_a_message_is_refused_and_says_what_is_missing() -> None:
    assert refusal(report("abuse")) == "This report carries no message to learn from"
    assert refusal(report("abuse", head())) == (
        "This report carries neither a message nor the X-Nbstream field of one to learn from"
    )


def test_too_many_messages_are_refused_and_none_is_left_out() -> None:
    assert f"More than {MAX_MESSAGES} messages" in refusal(multipart("mixed", *[RFC822] * (MAX_MESSAGES + 1)))


def test_any_broken_mail_means_something_or_is_refused() -> None:
    originals = [
        multipart("mixed", QUOTED, RFC822).encode(),
        report("abuse", head(ID)).encode(),
        f"To: {SPAM}\r\nContent-Type: text/html\r\n{QUOTED}".encode(),
    ]
    outcomes = set()
    for raw in mutations(originals, 3000):
        try:
            content = read(raw)
        except FeedbackRefused:
            outcomes.add("refused")
        else:
            assert bool(content.messages) != bool(content.id)
            outcomes.add("id" if content.id else "messages")
    assert outcomes == {"refused", "id", "messages"}


@pytest.mark.parametrize(
    "fields",
    [
        "To: alias@example.org\r\nSubject: Fwd: prize",
        "To: alias@example.org\r\nContent-Type: multipart/signed; boundary=b",
        "Subject: prize",
        "To: undisclosed-recipients:;\r\nSubject: prize",
    ],
)
def test_a_forward_of_its_sender_that_attaches_nothing_is_refused_whatever_it_was_written_to(fields: str) -> None:
    raw = f"From: Ann <Ann@example.org>\r\n{fields}\r\n\r\nbuy now\r\n"
    assert read(raw) == FeedbackContent((raw.encode(),))  # as a script sends the message of somebody else
    with pytest.raises(
        FeedbackRefused,
        match="no message to learn from, and you wrote it yourself; to teach a message, please forward",
    ):
        parse_feedback_mail(raw.encode(), "spam", {SPAM, HAM}, MessageReader(), "ann@example.org")
