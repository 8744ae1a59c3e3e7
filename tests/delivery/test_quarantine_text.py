"""``nbstream.server.quarantine_release``."""

from __future__ import annotations

from nbstream.mail.message import Message
from nbstream.server.quarantine_release import ShownText, shown_text

HEAD = b"From: =?utf-8?q?J=C3=BCrgen?= <j@x>\r\nSubject: order\r\nReceived: no\r\n"


def message_of(*parts: bytes) -> Message:
    body = b"".join(b"--x\r\n" + part + b"\r\n" for part in parts)
    return Message.parse(HEAD + b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n" + body)


def text_part(text: bytes, kind: bytes = b"text/plain") -> bytes:
    return b"Content-Type: " + kind + b"\r\n\r\n" + text


def test_the_fields_that_a_reader_looks_for_are_shown_decoded() -> None:
    assert shown_text(Message.parse(HEAD + b"\r\nhello\r\n")) == ShownText(
        (("From", "Jürgen <j@x>"), ("Subject", "order")), ("hello\r\n",), is_cut=False
    )


def test_html_is_its_text_and_an_attachment_is_nothing() -> None:
    shown = shown_text(
        message_of(
            text_part(b"<html><script>no</script><b>Yes</b> <img src=http://x/>", b"text/html"),
            b"Content-Disposition: attachment\r\n" + text_part(b"no"),
            b"Content-Type: image/png\r\n\r\nno",
        )
    )
    assert [part.split() for part in shown.parts] == [["Yes"]]
