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

from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, wait_until
from tests.integration.test_replay import write_config

SPAM, HAM = "spam@nbstream.invalid", "ham@nbstream.invalid"
KEY = "nbstream:{default}:"
NOBODY = "a" * 24

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
        config = write_config(tmp_path, **{"redis": url, "model": "{min_learned: {spam: 2, ham: 2}}", **settings})
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


def whole_message(seen: Seen) -> Message:
    return MIMEMessage(message_from_bytes(seen.raw))


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


def test_a_forward_of_many_teaches_each(site: Site) -> None:
    seen = [site.deliver(raw) for raw in (PRIZE, LUNCH)]
    site.send(as_attachments(seen[0].raw), SPAM)

    assert site.send(as_attachments(*(each.raw for each in seen)), SPAM) == (
        "250 2.0.0 2 messages as spam: 1 already, 1 learned; ham 0/2 known"
    )
    assert site.learned() == {"ham": 0, "spam": 2}


def test_a_redirected_message_is_the_same_message(site: Site) -> None:
    seen = site.deliver(PRIZE)
    resent = (
        b"Resent-From: ann@example.org\nResent-To: spam@nbstream.invalid\nResent-Date: Sat, 21 Nov 2026 11:00\n"
    )
    hop = b"Received: from laptop by mx.example.org; Sat, 21 Nov 2026 11:00:00 +0000\n"

    assert re.fullmatch(LEARNED.format(seen.id), site.send(hop + resent + seen.raw, SPAM))


def test_an_inline_forward_or_a_reply_teaches_by_the_id_that_it_quotes(site: Site) -> None:
    forms: tuple[dict[str, str], ...] = (
        {},
        {"quote": "> "},
        {"subtype": "html"},
        {"subject": "Re: report", "quote": ">> "},
    )
    for number, options in enumerate(forms):
        raw = PRIZE.replace(b"<prize@", b"<prize%d@" % number)
        seen = site.deliver(raw)

        assert re.fullmatch(LEARNED.format(seen.id), site.send(inline(seen, **options), SPAM)), options
        assert site.send(raw, SPAM).startswith("250 2.0.0 already learned as spam"), options
        site.unlearn(raw)


def test_an_inline_forward_without_the_id_is_refused_and_its_writer_is_not_learned(site: Site) -> None:
    seen = site.deliver(PRIZE)

    reply = site.send(inline(Seen(PRIZE, seen.id)), SPAM)

    assert reply.startswith("550 5.6.0 This mail neither attaches a message nor quotes its X-Nbstream field")
    assert site.learned() == {"ham": 0, "spam": 0}
    assert site.feedback("refused") == 1


def test_an_abuse_report_teaches_with_the_message_or_with_its_header_alone(site: Site) -> None:
    for number, part in enumerate((whole_message, head_only)):
        raw = PRIZE.replace(b"<prize@", b"<prize%d@" % number)
        seen = site.deliver(raw)

        assert re.fullmatch(LEARNED.format(seen.id), site.send(report("abuse", part(seen)), SPAM))
        assert site.send(report("not-spam", part(seen)), HAM).startswith(
            "250 2.0.0 relearned as ham, was learned as spam"
        )
        assert site.send(report("not-spam", part(seen)), SPAM).startswith("550 5.6.0 This report says not-spam")
        assert site.learned() == {"ham": 1, "spam": 0}
        site.unlearn(raw)


def test_the_command_line_teaches_by_id_and_takes_it_back(site: Site) -> None:
    seen = [site.deliver(raw) for raw in (PRIZE, LUNCH)]

    first = command("learn", "spam", "-c", site.config, "--id", seen[0].id)
    assert re.fullmatch(
        r"1 learned as spam: P 0\.50 -> 0\.\d\d, still unsure; ham 0/2, spam 1/2 known\n", first.stdout
    )
    assert command("learn", "ham", "-c", site.config, "--id", *(each.id for each in seen)).stdout == (
        "1 learned as ham, 1 relearned as ham; spam 0/2 known\n"
    )
    assert command("unlearn", "-c", site.config, "--id", *(each.id for each in seen)).stdout == (
        "2 unlearned from ham; ham 0/2, spam 0/2 known\n"
    )
    assert site.learned() == {"ham": 0, "spam": 0}


def test_a_verdict_that_changes_is_told_and_who_taught_is_kept(site: Site) -> None:
    for number in range(8):
        for raw, address in ((PRIZE, SPAM), (LUNCH, HAM)):
            site.send(raw.replace(b"-ID: <", b"-ID: <%d" % number), address)

    reply = site.send(LUNCH.replace(b"-ID: <", b"-ID: <9").replace(b"lunch now", b"free prize now"), SPAM)

    assert re.match(r"250 2\.0\.0 learned as spam: P 0\.\d+ -> 0\.\d+, .*; ham 8, spam 9 known; id=", reply)
    entries: Any = site.redis.xrevrange(f"{KEY}history", count=1)
    fields = entries[0][1]
    assert (fields[b"source"], fields[b"actor"]) == (b"smtp", b"127.0.0.1")


def test_a_human_label_is_never_refused_for_how_little_there_is(site: Site) -> None:
    for raw in (
        b"Subject: hi\r\n\r\n",
        b"Subject: x\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n",
        b"\xff\xfe\x00\x80",
    ):
        assert site.send(raw, SPAM).startswith("250 2.0.0 learned as spam: "), raw
        assert site.send(as_attachments(raw), HAM).startswith("250 2.0.0 "), raw


def test_a_restart_between_check_and_feedback_forgets_nothing(site: Site, start: Callable[..., Site]) -> None:
    seen = site.deliver(PRIZE, remembered=False)
    assert site.daemon.stop() == 0

    again = start()

    assert re.fullmatch(LEARNED.format(seen.id), again.send(inline(seen), SPAM))


def test_an_id_that_is_forgotten_is_refused_until_the_message_itself_is_learned(site: Site) -> None:
    seen = site.deliver(PRIZE)
    site.redis.pexpire(f"{KEY}checked:{seen.id}", 0)

    assert site.send(inline(seen), SPAM) == (
        f"550 5.6.0 Unknown id {seen.id}: not remembered any more; forward the message as an attachment"
    )
    unknown = command("learn", "spam", "-c", site.config, "--id", seen.id)
    assert (unknown.returncode, unknown.stdout) == (66, "nothing learned\n")
    assert site.learned() == {"ham": 0, "spam": 0}

    site.send(as_attachments(seen.raw), SPAM)
    assert site.send(inline(seen), HAM).startswith("250 2.0.0 relearned as ham, was learned as spam: P ")
    assert command("unlearn", "-c", site.config, "--id", seen.id).stdout.startswith(
        "1 unlearned, was learned as ham"
    )
    assert site.redis.keys(f"{KEY}counts:*") == site.redis.keys(f"{KEY}totals") == []


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


def test_what_is_told_by_check_can_be_taught_by_its_id_once_the_message_was_seen(site: Site) -> None:
    seen = site.deliver(PRIZE)

    told = command("check", "-c", site.config, "--json", "-", input=seen.raw.decode())

    assert json.loads(told.stdout)["id"] == seen.id
    assert site.send(inline(Seen(seen.raw.replace(seen.id.encode(), NOBODY.encode()), NOBODY)), SPAM).startswith(
        "550"
    )
