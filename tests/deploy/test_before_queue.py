"""nbstream before the queue of a real Postfix: what is refused is refused to the sender, and nothing is lost."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.handbook_pages import page
from tests.harness.postfix import BEFORE_QUEUE, DEPLOY, FRIEND, STRANGER, Postfix, logins, open_folder
from tests.harness.programs import needs_root
from tests.harness.smtp_listener import HAM, SPAM

SETTINGS = DEPLOY / "before-queue" / "nbstream.yaml"
SENDER = "someone@elsewhere.example"
PRIZE = "Subject: m-{}\nFrom: win@example.com\n\nClaim your free prize now, winner\n"
LUNCH = "Subject: m-{}\nFrom: bob@example.org\n\nShall we have lunch on Friday?\n"


@dataclass(slots=True)
class Site:
    """A running Postfix with a running daemon before its queue."""

    postfix: Postfix
    settings: Path
    daemon: DaemonProcess

    def send(self, text: str, source: str = STRANGER, *recipients: str) -> tuple[int, str]:
        """The reply to a message on port 25."""
        with self.postfix.connect(self.postfix.outside, source) as client:
            client.ehlo()
            client.mail(SENDER)
            for recipient in recipients or ("team@example.org",):
                code, reply = client.rcpt(recipient)
                if code >= 300:
                    return code, reply.decode()
            code, reply = client.data(text)
            return code, reply.decode()

    def teach(self, count: int) -> None:
        """As a user does, with a login."""
        with self.postfix.connect(self.postfix.submission, STRANGER) as client:
            client.login("ann", "secret")
            for number in range(count):
                client.sendmail("ann@example.org", SPAM, PRIZE.format(number))
                client.sendmail("ann@example.org", HAM, LUNCH.format(number))

    def learned(self, label: str) -> float:
        return self.daemon.metric(f'nbstream_feedback_total{{label="{label}",outcome="learned",source="smtp"}}')


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:
    program("postfix")
    needs_root()
    with open_folder() as folder:
        postfix = Postfix(folder, program, BEFORE_QUEUE)
        settings = folder / "nbstream.yaml"
        text = postfix.own(SETTINGS.read_text()).replace("/var/lib/nbstream", f"{folder}/state")
        text = text.replace("listeners:\n", "listeners:\n  http: {listen: 127.0.0.1:0}\n")
        text = text.replace("reject: 0.99", "spam: 0.95\n  reject: 0.951")  # a few lessons make a model no surer
        settings.write_text(text + "model: {min_learned: 5}\n")
        with logins(folder / "auth"), postfix.running():
            whole = Site(postfix, settings, DaemonProcess(settings).ready())
            whole.teach(40)
            wait_until(lambda: whole.learned("spam") == whole.learned("ham") == 40)
            yield whole
            whole.daemon.kill()


def test_mail_is_delivered_once_with_its_verdict_and_the_sender_sees_the_reply_of_the_queue(site: Site) -> None:
    code, reply = site.send(LUNCH.format("ham"))

    assert code == 250
    assert re.fullmatch(r"2\.0\.0 Ok: queued as [0-9A-Za-z]+", reply)
    message = site.postfix.arrived("m-ham")
    assert message.count(b"\nX-Nbstream: ham;") == 1
    assert f"[{STRANGER}]".encode() in message  # Received names the client
    assert f'"{STRANGER}"' not in reply


def test_spam_is_refused_to_its_sender_without_a_verdict_and_nothing_bounces(site: Site) -> None:
    code, reply = site.send(PRIZE.format("refused"), STRANGER, "ann@example.org", "team@example.org")

    assert code == 550
    assert re.fullmatch(r"5\.7\.1 Message refused as spam, id=[0-9a-z]+", reply)
    assert site.daemon.metric('nbstream_messages_total{listener="smtp",verdict="reject"}') == 1
    assert not site.postfix.delivered("m-refused")
    assert "status=bounced" not in site.postfix.log


def test_a_stranger_cannot_ask_for_the_verdict(site: Site) -> None:
    with site.postfix.connect(site.postfix.outside, STRANGER) as client:
        client.ehlo()
        assert "xverdict" not in client.esmtp_features
        assert client.mail(SENDER, ["XVERDICT"])[0] == 555


@pytest.mark.parametrize("source", [STRANGER, FRIEND])
def test_nobody_teaches_on_port_25(site: Site, source: str) -> None:
    assert site.send(PRIZE.format("teach"), source, SPAM)[0] == 554
    assert site.send(PRIZE.format("teach"), source, "ann@example.org", HAM)[0] == 554


def test_all_parameters_reach_the_queue(site: Site) -> None:
    with site.postfix.connect(site.postfix.outside, FRIEND) as client:
        client.ehlo()
        options = ["BODY=8BITMIME", "SMTPUTF8", "RET=HDRS", "ENVID=QQ+2B314159"]
        assert client.mail("ann@example.org", options)[0] == 250
        notify = ["NOTIFY=SUCCESS", "ORCPT=rfc822;Team+2B@Example.ORG"]
        assert client.rcpt("team@example.org", notify)[0] == 250
        assert client.data("Subject: m-gr\u00fc\u00dfe\r\n\r\nlunch on Friday\r\n".encode())[0] == 250

    report = site.postfix.arrived("Original-Envelope-Id")
    assert b"Original-Envelope-Id: QQ+314159" in report
    assert b"Original-Recipient: rfc822;Team+@Example.ORG" in report
    assert b"verdict=" not in report
    wait_until(
        lambda: len(site.postfix.delivered("m-gr\u00fc\u00dfe")) == 2
    )  # the message, and its header in the report


def test_a_stranger_cannot_ask_for_a_report_of_success(site: Site) -> None:
    """As the guide to the quarantine advises: the report that never comes would tell him where his mail is."""
    (command,) = [line for line in page("guides/web-interface.md").splitlines() if "postconf -P" in line]
    name, option, entry = shlex.split(site.postfix.own(command))

    def offers_reports() -> bool:
        with site.postfix.connect(site.postfix.outside, STRANGER) as client:
            client.ehlo()
            return client.has_extn("dsn")

    assert offers_reports()
    site.postfix.run(name, option, entry)
    site.postfix.run("postfix", "reload")
    wait_until(lambda: not offers_reports())
    with site.postfix.connect(site.postfix.outside, STRANGER) as client:
        client.ehlo()
        client.mail(SENDER)
        assert client.rcpt("ann@example.org", ["NOTIFY=SUCCESS"])[0] == 501
        assert client.rcpt("ann@example.org")[0] == 250

    site.postfix.run(name, "-PX", entry.partition("=")[0])
    site.postfix.run("postfix", "reload")
    wait_until(offers_reports)


def test_while_nbstream_is_away_the_sender_keeps_his_mail(site: Site) -> None:
    assert site.daemon.stop() == 0
    site.daemon.kill()
    assert site.send(LUNCH.format("away"))[0] == 451

    site.daemon = DaemonProcess(site.settings).ready()
    assert site.send(LUNCH.format("away"))[0] == 250
    assert site.postfix.arrived("m-away").count(b"\nX-Nbstream:") == 1
