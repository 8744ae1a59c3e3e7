"""Feedback mail: what it teaches is bounded, and a message that it attaches is taught as it was."""

from __future__ import annotations

from nbstream.errors import FeedbackRefused
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.header import MessageReader
from nbstream.server.api_json import is_message_id
from nbstream.server.feedback_mailbox import MAX_MESSAGES, FeedbackContent, parse_feedback_mail
from tests.fuzz.target import FuzzTarget

_ADDRESSES = ("spam@nbstream.invalid", "ham@nbstream.invalid")
_READER = MessageReader()
_ID = b"abcdefghijklmnopqrstuvwx"
_OWN = b"X-Nbstream: spam; probability=0.990000;\r\n\tmodel=m; id=" + _ID


def _check(data: bytes) -> None:
    content = normalize_line_ends(data)
    for label in ("spam", "ham"):
        try:
            taught = parse_feedback_mail(content, label, _ADDRESSES, _READER)
        except FeedbackRefused as refusal:
            problem = refusal
        else:
            _check_taught(taught)
            continue
        assert len(str(problem)) < 500
        assert not problem.temporary
    if content.strip() and b"--outer" not in content:
        assert parse_feedback_mail(_forwarded(content), "spam", _ADDRESSES, _READER).messages == (content,)


def _check_taught(taught: FeedbackContent) -> None:
    assert (taught.id is None) != (not taught.messages)
    assert taught.id is None or is_message_id(taught.id)
    assert len(taught.messages) <= MAX_MESSAGES
    assert all(message.strip() for message in taught.messages)
    assert all(normalize_line_ends(message) == message for message in taught.messages)


def _forwarded(message: bytes) -> bytes:
    return (
        b"To: spam@nbstream.invalid\r\nContent-Type: multipart/mixed; boundary=outer\r\n\r\n"
        b"--outer\r\nContent-Type: message/rfc822\r\n\r\n" + message + b"\r\n--outer--\r\n"
    )


TARGET = FuzzTarget(
    _check,
    (
        _forwarded(b"From: a@example.org\r\n" + _OWN + b"\r\nSubject: prize\r\n\r\nwin\r\n"),
        b"To: spam@nbstream.invalid\r\n\r\n> " + _OWN.replace(b"\r\n\t", b" ") + b"\r\n",
        b"Resent-From: b@example.org\r\nSubject: x\r\n" + _OWN + b"\r\n\r\ntext",
        b"Content-Type: multipart/report; report-type=feedback-report; boundary=b\r\n\r\n--b\r\n"
        b"Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\n\r\n--b\r\n"
        b"Content-Type: text/rfc822-headers\r\n\r\n" + _OWN + b"\r\n--b--\r\n",
        b"Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nSubject: 1\r\n\r\n"
        b"--b\r\n\r\nSubject: 2\r\n",
        b"To: ham@nbstream.invalid\r\nContent-Type: text/html\r\n\r\n<p>&gt; X-Nbstream<b>:</b> x model=m; id="
        + _ID,
        b"Subject: a message itself\r\n\r\ntext",
    ),
    words=(
        *(b"Content-Type: message/rfc822\r\n", b"Content-Transfer-Encoding: base64\r\n", b"\r\n--b\r\n", b"--b--"),
        *(
            b"Resent-To: a",
            b"Feedback-Type: not-spam",
            b"X-Nbstream: ",
            b"; model=m; id=" + _ID,
            b"To: ham@nbstream.invalid",
        ),
        *(b"X-Forwarded-Message-Id: a", b"text/rfc822-headers", b"boundary=b"),
    ),
    mutations=600,
)
