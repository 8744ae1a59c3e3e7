"""``nbstream.web.users.digest_mail``: what a user reads, in both languages, whatever the senders wrote."""

from __future__ import annotations

import email
import email.policy
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import QuarantineFile, QuarantineNote
from nbstream.web.quarantine import ListedMail, QuarantinedMail
from nbstream.web.users.digest_mail import Digest, DigestRenderer
from nbstream.web.users.links import LinkPurpose, LinkSigner
from nbstream.web.users.settings import DigestSettings
from tests.harness.admin_site import HOSTILE
from tests.harness.digest_site import SECTION, body_of

NOW = 1_795_849_200.0  # 2026-11-28 07:00 UTC
SIGNER = LinkSigner(b"k" * 32)
IDS = ["abcdefghijklmnopqrstuvwx", "bcdefghijklmnopqrstuvwxy"]


def listed(
    message_id: str, at: float, probability: float, sender: str, subject: str, *, in_doubt: bool = False
) -> ListedMail:
    note = QuarantineNote(message_id, "spam", probability, "", Envelope(SmtpPath(sender), ()))
    file = QuarantineFile(message_id, at, Path(), in_doubt)
    return ListedMail(QuarantinedMail(message_id, [file]), note, sender, subject)


LETTER = listed(IDS[0], NOW - 7200, 0.62, "Chess club <news@chess.example>", "Friday's games")
SPAM = listed(IDS[1], NOW - 3600, 0.99996, "winner@lottery.example", "You have won", in_doubt=True)
DIGEST = Digest("ann@example.org", [LETTER, SPAM], more=2, older=1)
URL = re.compile(r"https://mail\.example\.org/my/link/(\w+)\?link=([\w-]+)")


@pytest.fixture(autouse=True, scope="module")
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@cache
def renderer(kept_days: int | None = 30, **section: Any) -> DigestRenderer:
    return DigestRenderer(DigestSettings(**{**SECTION, **section}), kept_days)


def mail_of(digest: Digest, **section: Any) -> EmailMessage:
    content = renderer(**section).mail(digest, SIGNER, NOW)
    assert b"\n" not in content.replace(b"\r\n", b"")
    return email.message_from_bytes(content, policy=email.policy.default)


def test_a_program_wrote_it_and_nobody_is_to_answer() -> None:
    mail = mail_of(DIGEST)
    assert (mail["From"], mail["To"]) == ("filter@example.org", "ann@example.org")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@example.org>")
    assert mail["Date"].datetime.timestamp() == NOW
    match = URL.fullmatch(mail["List-Unsubscribe"].strip("<>"))
    assert match
    assert match[1] == "digest"


def test_each_link_is_good_for_one_message_of_this_user() -> None:
    text = body_of(mail_of(DIGEST), "plain")
    links = [SIGNER.read(token, LinkPurpose(purpose), NOW) for purpose, token in URL.findall(text)]
    assert [(link.purpose, link.address, link.message_id) for link in links if link] == [
        ("release", "ann@example.org", IDS[0]),
        ("ham", "ann@example.org", IDS[0]),
        ("release", "ann@example.org", IDS[1]),
        ("ham", "ann@example.org", IDS[1]),
        ("digest", "ann@example.org", ""),
    ]


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


@pytest.mark.parametrize("language", ["en", "de"])
@given(
    text=st.one_of(st.text(st.characters(), max_size=300), st.sampled_from([HOSTILE, "a\r\nBcc: eve@example.net"]))
)
def test_what_others_wrote_changes_nothing_around_it(language: str, text: str) -> None:
    hostile = LETTER._replace(sender=text, subject=text)
    calm, mail = (
        mail_of(replace(DIGEST, messages=[message, SPAM]), language=language) for message in (LETTER, hostile)
    )

    assert mail.keys() == calm.keys()
    assert body_of(mail, "plain").count("\n") == body_of(calm, "plain").count("\n")
    parsed = [_Elements(), _Elements()]
    for elements, each in zip(parsed, (calm, mail), strict=True):
        elements.feed(body_of(each, "html"))
    assert parsed[0].elements == parsed[1].elements
    assert not set("\u202e\u2066\u200f\u0007\x1b\u200b") & set(body_of(mail, "plain") + body_of(mail, "html"))


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("https://evil.example/login, at 12:30", "https[:]//evil[.]example/login, at 12:30"),
        ("WWW.evil.example", "WWW[.]evil[.]example"),
        ("evil.example/login, a.b.evil.co.uk:8080", "evil[.]example/login, a.b[.]evil[.]co[.]uk:8080"),
        ("\u30c6\u30b9\u30c8.\u30c6\u30b9 x\u3002example", "\u30c6\u30b9\u30c8[.]\u30c6\u30b9 x[\u3002]example"),
        ("x.xn--p1ai 192.0.2.1/login", "x[.]xn--p1ai 192[.]0[.]2.1/login"),
        ("ann@evil.example/login ann@evil.example:80", "ann@evil[.]example/login ann@evil[.]example:80"),
        ("You owe 3.50 ... e.g. to Ann (ann@shop.example).", "You owe 3.50 ... e.g. to Ann (ann@shop.example)."),
    ],
)
def test_mail_programs_make_no_link_of_what_others_wrote(subject: str, shown: str) -> None:
    mail = mail_of(replace(DIGEST, messages=[LETTER._replace(subject=subject)]))
    for kind in ("plain", "html"):
        assert shown in body_of(mail, kind)
