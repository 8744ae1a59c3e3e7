"""Every route by which people correct the filter, through a real daemon: what it answers, and what it learned."""

from __future__ import annotations

import json
import re
import smtplib
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.harness.daemon import DaemonProcess, command, wait_until, write_config
from tests.harness.redis.redis_server import RedisServer

SPAM, HAM = "spam@nbstream.invalid", "ham@nbstream.invalid"
KEY = "nbstream:{default}:"

PRIZE = b"""Received: from offers.example by mx.example.org; Sat, 21 Nov 2026 10:00:00 +0000
Message-ID: <prize@offers.example>
Date: Sat, 21 Nov 2026 10:00:00 +0000
From: "Prize Office" <winner@offers.example>
To: ann@example.org
Subject: You have won
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

Claim your free prize now, d\xc3\xa9j\xc3\xa0 vu
"""
LUNCH = PRIZE.replace(b"<prize@", b"<lunch@").replace(b"have won", b"are invited").replace(b"free prize", b"lunch")


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as its reader has it, and the id in its header."""

    raw: bytes
    id: str


@dataclass(slots=True)
class Site:
    """A daemon on a Redis that the test may look into."""

    config: Path
    redis: Redis
    daemon: DaemonProcess

    def send(self, content: bytes, recipient: str) -> str:
        """Send with the standard library's client; the last reply."""
        host, _, port = self.daemon.address("smtp").partition(":")
        with smtplib.SMTP(host, int(port), timeout=30) as client:
            client.ehlo("client")
            client.mail("ann@example.org", ["BODY=8BITMIME"])
            client.rcpt(recipient)
            code, text = client.data(content)
            return f"{code} {text.decode()}"

    def deliver(self, raw: bytes, *, remembered: bool = True) -> Seen:
        """Send ``raw`` to its reader and return it as it arrived; it is remembered then, or shall not be."""
        folder = self.config.parent / "state" / "Maildir" / "new"
        before = set(folder.glob("*"))
        assert self.send(raw, "ann@example.org").startswith("250 ")
        (arrived,) = set(folder.glob("*")) - before
        content = arrived.read_bytes()
        found = re.search(rb"\bid=([a-z2-7]{24})$", content, re.MULTILINE)
        assert found
        if remembered:
            wait_until(lambda: self.redis.exists(f"{KEY}checked:{found[1].decode()}"))
        return Seen(content, found[1].decode())

    def learned(self) -> dict[str, int]:
        """How many messages of each class are in the model."""
        found: Any = self.redis.hgetall(f"{KEY}totals")
        return {label: int(found.get(f"messages:{label}".encode(), 0)) for label in ("ham", "spam")}

    def unlearn(self, raw: bytes) -> None:
        url = f"http://{self.daemon.address('http')}/v1/unlearn"
        with urllib.request.urlopen(urllib.request.Request(url, raw), timeout=30) as response:
            assert json.loads(response.read())["outcome"] == "unlearned"

    def feedback(self, outcome: str, label: str = "spam") -> float:
        return self.daemon.metric(f'nbstream_feedback_total{{label="{label}",outcome="{outcome}",source="smtp"}}')


@pytest.fixture
def start(tmp_path: Path, own_redis: RedisServer) -> Iterator[Callable[..., Site]]:
    daemons = []
    redis = Redis(unix_socket_path=str(own_redis.socket))

    def begin(**settings: str) -> Site:
        url = f"{{url: '{own_redis.url}', timeout_seconds: 1}}"
        config = write_config(tmp_path, **{"redis": url, "model": "{min_learned: 2}", **settings})
        daemons.append(DaemonProcess(config).ready())
        return Site(config, redis, daemons[-1])

    yield begin
    for daemon in daemons:
        daemon.kill()
    redis.close()


@pytest.fixture
def site(start: Callable[..., Site]) -> Site:
    return start()


def as_attachments(*messages: bytes) -> bytes:
    """What a mail program sends on "forward as attachment"."""
    forward = MIMEMultipart("mixed")
    forward["From"], forward["To"], forward["Subject"] = "ann@example.org", SPAM, "Fwd: You have won"
    forward.attach(MIMEText("These are spam.\n", "plain", "utf-8"))
    for raw in messages:
        forward.attach(MIMEMessage(message_from_bytes(raw)))
    return forward.as_bytes()


def inline(seen: Seen, *, subject: str = "Fwd: You have won", quote: str = "", subtype: str = "plain") -> bytes:
    """What a mail program sends on "forward" or "reply" with all header fields shown."""
    shown = message_from_bytes(seen.raw, policy=policy.default)
    lines = ["-------- Forwarded Message --------", *(f"{name}: {value}" for name, value in shown.items()), ""]
    lines += str(shown.get_content()).splitlines()
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "ann@example.org", SPAM, subject
    text = "\n".join(quote + line for line in lines)
    if subtype == "html":
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "<br>\n")
        text = f"<html><body><blockquote>{escaped}</blockquote></body></html>"
    mail.set_content(text, subtype=subtype)
    return mail.as_bytes()


def report(kind: str, part: Message) -> bytes:
    """An abuse report as in RFC 5965."""
    whole = MIMEMultipart("report")
    whole.set_param("report-type", "feedback-report")
    whole["From"], whole["To"], whole["Subject"] = "feedback@isp.example", SPAM, "FW: You have won"
    whole.attach(MIMEText("This is an email abuse report.\n"))
    fields = MIMENonMultipart("message", "feedback-report")
    fields.set_payload(f"Feedback-Type: {kind}\nUser-Agent: Generator/1.0\nVersion: 1\n")
    whole.attach(fields)
    whole.attach(part)
    return whole.as_bytes()


def head_only(seen: Seen) -> Message:
    part = MIMENonMultipart("text", "rfc822-headers")
    part.set_payload(seen.raw.partition(b"\n\n")[0].decode() + "\n")
    return part


LEARNED = r"250 2\.0\.0 learned as spam: P 0\.50 -> 0\.\d\d, still unsure; ham 0/2, spam 1/2 known; id={}"


def test_a_forward_as_attachment_teaches_the_message_that_it_attaches(site: Site) -> None:
    seen = site.deliver(PRIZE)

    assert re.fullmatch(LEARNED.format(seen.id), site.send(as_attachments(seen.raw), SPAM))
    assert site.send(as_attachments(seen.raw), SPAM).startswith(
        "250 2.0.0 already learned as spam, nothing changed"
    )
    assert site.send(as_attachments(seen.raw), HAM).startswith(
        "250 2.0.0 relearned as ham, was learned as spam: P "
    )
    assert site.learned() == {"ham": 1, "spam": 0}


def test_where_the_memory_is_switched_off_nothing_is_kept_and_ids_are_unknown(start: Callable[..., Site]) -> None:
    site = start(memory="{messages: 0}")
    seen = site.deliver(PRIZE, remembered=False)

    assert site.send(inline(seen), SPAM).startswith(f"550 5.6.0 Unknown id {seen.id}")
    assert site.send(report("abuse", head_only(seen)), SPAM).startswith(f"550 5.6.0 Unknown id {seen.id}")
    assert site.redis.keys(f"{KEY}checked:*") == []
    assert site.send(as_attachments(seen.raw), SPAM).startswith("250 2.0.0 learned as spam")


def test_while_redis_is_away_feedback_waits_mail_flows_and_the_loss_is_counted(
    site: Site, own_redis: RedisServer, tmp_path: Path
) -> None:
    seen = site.deliver(PRIZE)
    site.redis.save()
    own_redis.stop()

    assert site.send(inline(seen), SPAM).startswith("451 4.3.0 ")
    assert site.send(as_attachments(seen.raw), SPAM).startswith("451 4.3.0 ")
    assert command("learn", "spam", "-c", site.config, "--id", seen.id).returncode == 75
    lost = site.deliver(LUNCH, remembered=False)
    wait_until(lambda: site.daemon.metric("nbstream_memory_dropped_total") == 1)
    assert site.feedback("failed") == 2

    own_redis.start()
    assert re.fullmatch(LEARNED.format(seen.id), site.send(inline(seen), SPAM))
    assert site.send(inline(lost), HAM).startswith(f"550 5.6.0 Unknown id {lost.id}")
    assert site.send(as_attachments(lost.raw), HAM).startswith("250 2.0.0 learned as ham")
