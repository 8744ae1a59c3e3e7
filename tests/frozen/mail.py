"""The messages of the recorded sessions: made up, and each of another kind."""

from __future__ import annotations

from tests.harness.samples import samples

SPAM = (
    b"Received: from offers.example (offers.example [203.0.113.9]) by mx.example.org; "
    b"Mon, 1 Jan 2024 10:00:00 +0000\r\n"
    b'From: "Prize Office" <winner@offers.example>\r\nTo: ann@example.org\r\nSubject: Claim your prize 7 now\r\n'
    b"Message-ID: <prize@offers.example>\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    b'<html><body><p>Claim your <b>prize</b> now: <a href="http://offers.example/claim?x=1">here</a></p></body></html>\r\n'
)
HAM = (
    b"From: Ann <ann@example.org>\r\nTo: Ben <ben@example.org>\r\nSubject: Lunch on Friday?\r\n"
    b"Date: Mon, 1 Jan 2024 11:00:00 +0000\r\nMessage-ID: <lunch@example.org>\r\n\r\n"
    b"Shall we have lunch on Friday?\r\n.\r\n..two dots\r\nAnn\r\n"
)
MULTIPART = (
    b"From: Cleo <cleo@example.net>\r\nSubject: =?utf-8?b?QmVyaWNodCDDvGJlciBPZmZlcg==?=\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="x"\r\n\r\npreamble\r\n--x\r\n'
    b"Content-Type: text/plain; charset=iso-8859-1\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe aus M=FCnchen\r\n--x\r\n"
    b"Content-Type: application/octet-stream; name=a.bin\r\nContent-Transfer-Encoding: base64\r\n\r\nAAECAwQ=\r\n"
    b"--x\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ninner text\r\n--x--\r\nepilogue\r\n"
)
FORGED = (
    b"X-Nbstream: ham, probability=0.000, reason=model, id=aaaaaaaaaaaaaaaaaaaaaaaa\r\nX-Spam-Flag: NO\r\n"
    b"X-Spam-Status: No, score=-9.9\r\nAuthentication-Results: mx.example.org; dkim=pass header.d=bank.example\r\n"
    b"From: bank@bank.example\r\nSubject: Your account\r\n\r\nPlease log in.\r\n"
)
BROKEN = b"Not a header line\r\nSubject: late\r\n\r\nbody\x00with\xff\xfebytes\r\n" + b"x" * 2500 + b"\r\n"
EMPTY_BODY = b"From: a@example.org\r\nSubject: nothing\r\n\r\n"

MESSAGES = {
    "spam": SPAM,
    "ham": HAM,
    "multipart": MULTIPART,
    "forged": FORGED,
    "broken": BROKEN,
    "empty body": EMPTY_BODY,
}

TAUGHT = [(label, raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")) for label, raw in samples(120)]
"""What is taught before the sessions, for verdicts that come from a model."""
