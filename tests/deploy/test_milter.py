"""The milter pieces for Postfix: a real Postfix asks a real daemon about each message, and edits it itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from smtplib import SMTPDataError

import pytest

from nbstream.mail.message import Message
from nbstream.policy.header import HeaderPolicy, MessageReader
from tests.harness.corpora import trec_stream
from tests.harness.daemon import DaemonProcess, command, free_port, wait_until
from tests.harness.postfix import DEPLOY, FRIEND, MILTER, STRANGER, Postfix, logins, open_folder
from tests.harness.programs import needs_root

PIECES = DEPLOY / "postfix" / "milter"
SETTINGS = PIECES / "nbstream.yaml"
CHANGES = """
message_size_limit = 50000000
header_size_limit = 300000
virtual_mailbox_maps = inline:{ judged@example.org=judged/, plain@example.org=plain/, @example.org=ann/ }
smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated reject_unauth_destination
"""
SERVICES = """\
127.0.0.1:{plain} inet n - n - - smtpd
    -o smtpd_milters=
pickup unix n - n 1 1 pickup
"""
RULES = """
recipients:
  - {match: "refuse@example.org", actions: {unsure: reject}}
  - {match: "defer@example.org", actions: {unsure: defer}}
  - {match: "hold@example.org", actions: {unsure: quarantine}}
  - {match: "elsewhere@example.org", actions: {unsure: "redirect:ann@example.org"}}
  - {match: "team@example.org", actions: {unsure: "redirect:ann@example.org"}}
  - {match: "abuse@example.org", actions: {unsure: "redirect:abuse@example.org"}}
"""
ONCE = (b"X-Nbstream", b"X-Spam-Status", b"X-Spam-Level")
_NAMES = "|".join(HeaderPolicy("default").removed_from_incoming).encode()
_VERDICT_FIELD = re.compile(rb"(?mi)^(?:" + _NAMES + rb")[ \t]*:.*\n(?:[ \t].*\n)*")
_ABOVE = re.compile(rb"(?:[^\n]*\n)*?Received: [^\n]*\n(?:[ \t][^\n]*\n)*")


@dataclass(slots=True)
class Site:
    """A running Postfix with a running daemon beside it; ``plain`` is a port that asks no milter."""

    postfix: Postfix
    settings: Path
    plain: int
    daemon: DaemonProcess

    def send(self, text: str, recipient: str = "ann@example.org", source: str = STRANGER) -> None:
        with self.postfix.connect(self.postfix.outside, source) as client:
            client.sendmail("someone@elsewhere.example", recipient, text)

    def refusal(self, text: str, recipient: str, source: str = STRANGER) -> str:
        """The reply to a message that is refused."""
        with pytest.raises(SMTPDataError) as refused:
            self.send(text, recipient, source)
        text_of_reply = refused.value.smtp_error
        assert isinstance(text_of_reply, bytes)
        return f"{refused.value.smtp_code} {text_of_reply.decode()}"

    def learned(self, label: str) -> float:
        return self.daemon.metric(f'nbstream_feedback_total{{label="{label}",outcome="learned",source="milter"}}')

    def message_event(self, number: int = -1) -> dict[str, object]:
        def events() -> list[dict[str, object]]:
            return [event for event in self.daemon.events if event["event"] == "message"]

        wait_until(lambda: len(events()) >= -number)  # the log is read in a thread
        return events()[number]


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:  # the daemon needs a server
    program("postfix")
    needs_root()
    with open_folder() as folder:
        plain = free_port()
        postfix = Postfix(folder, program, MILTER, CHANGES, SERVICES.format(plain=plain))
        postfix.make_socket_folder()
        settings = folder / "nbstream.yaml"
        text = SETTINGS.read_text().replace("/var/lib/nbstream", f"{folder}/state")
        text = text.replace("/var/spool/postfix", f"{folder}/queue")
        text = text.replace("listeners:\n", "listeners:\n  http: {listen: 127.0.0.1:0}\n")
        settings.write_text(text + RULES)
        with logins(folder / "auth"), postfix.running():
            whole = Site(postfix, settings, plain, DaemonProcess(settings).ready())
            yield whole
            whole.daemon.kill()


def test_mail_from_outside_is_delivered_with_one_verdict(site: Site) -> None:
    site.send("Subject: m-outside\nX-Spam-Flag: YES\nx-nbstream: ham\nX-Spam-Flag: NO\n\nhello\n")

    message = site.postfix.arrived("m-outside")

    assert message.count(b"\nX-Nbstream: unsure;") == message.lower().count(b"x-nbstream:") == 1
    assert b"X-Spam-Flag" not in message
    assert message.index(b"\nReceived:") < message.index(b"\nX-Spam-Status:") < message.index(b"\nSubject:")
    assert message.endswith(b"\n\nhello\n")
    event = site.message_event()
    assert event["client"] == STRANGER
    wait_until(lambda: f"{event['queue_id']}: message-id=" in site.postfix.log)


def test_refusals_reach_the_client_with_our_text(site: Site) -> None:
    assert site.refusal("Subject: m-reject\n\nhello\n", "refuse@example.org").startswith("550 5.7.1 ")
    assert site.refusal("Subject: m-defer\n\nhello\n", "defer@example.org").startswith("451 4.7.1 ")
    assert "spam" in site.refusal("Subject: m-reject\n\nhello\n", "refuse@example.org")


def test_the_mildest_action_holds_for_several_recipients(site: Site) -> None:
    with site.postfix.connect(site.postfix.outside, STRANGER) as client:
        client.sendmail(
            "s@elsewhere.example", ["refuse@example.org", "ann@example.org"], "Subject: m-mild\n\nhi\n"
        )

    wait_until(lambda: len(site.postfix.delivered("m-mild")) >= 1)


def test_quarantine_is_the_hold_queue_and_is_released_by_postsuper(site: Site) -> None:
    site.send("Subject: m-hold\n\nhello\n", "hold@example.org")
    wait_until(lambda: "milter-hold" in site.postfix.log)
    queue = [json.loads(line) for line in site.postfix.run("postqueue", "-j").splitlines()]
    (held,) = [entry for entry in queue if entry["queue_name"] == "hold"]
    assert not site.postfix.delivered("m-hold")

    site.postfix.run("postsuper", "-H", held["queue_id"])

    site.postfix.run("postqueue", "-f")
    assert site.postfix.arrived("m-hold").count(b"\nX-Nbstream: unsure;") == 1


def test_a_redirected_message_goes_to_its_new_recipient_alone(site: Site) -> None:
    site.send("Subject: m-redirect\n\nhello\n", "elsewhere@example.org")

    message = site.postfix.arrived("m-redirect")

    assert b"\nX-Nbstream-Recipient: elsewhere@example.org\n" in message
    assert b"\nX-Original-To: ann@example.org\n" in message


def test_a_message_that_is_redirected_to_whom_an_alias_of_its_recipient_leads_arrives_once(site: Site) -> None:
    site.send("Subject: m-redirect-by-alias\n\nhello\n", "team@example.org")

    assert b"\nX-Original-To: ann@example.org\n" in site.postfix.arrived("m-redirect-by-alias")


def test_mail_of_this_machine_is_judged_too(site: Site) -> None:
    words = [
        site.postfix.program("sendmail"),
        "-C",
        str(site.postfix.folder / "etc"),
        "-f",
        "root@example.org",
        "ann@example.org",
    ]
    subprocess.run(words, input=b"Subject: m-local\n\nhello\n", check=True, timeout=30)

    assert site.postfix.arrived("m-local").count(b"\nX-Nbstream: unsure;") == 1


# Feedback


def test_an_authenticated_user_teaches_from_anywhere(site: Site) -> None:
    with site.postfix.connect(site.postfix.submission, STRANGER) as client:
        client.login("ann", "secret")
        client.sendmail("ann@example.org", "ham@nbstream.invalid", "Subject: m-user\n\nlunch on Friday\n")

    assert site.learned("ham") == 1  # durable before the client had its answer
    wait_until(lambda: "milter-discard" in site.postfix.log)  # another process writes the log
    newest = json.loads(command("history", "-c", site.settings, "--limit", "1", "--json").stdout)
    assert (newest["actor"], newest["source"]) == ("user ann", "milter")


def test_a_client_of_the_own_networks_teaches_and_a_stranger_does_not(site: Site) -> None:
    site.send("Subject: m-teach\n\nfree prize\n", "spam@nbstream.invalid", FRIEND)

    assert site.learned("spam") == 1
    assert site.postfix.answer(STRANGER, "spam@nbstream.invalid")[0] == 554


# What arrives is what was sent


ODD = [
    b"Subject: no body\r\n\r\n",
    b"Subject: no end of the header\r\n",
    b"no header at all\r\n",
    b"\r\nan empty header\r\n",
    b"Subject:no space\r\nX-Tab:\ttab\r\nX-Two:  spaces  \r\nX-Empty:\r\nX-Space : before\r\n\r\nbody \r\n",
    b"Subject: folded\r\n here\r\n\tand there\r\n \r\n\r\nbody\r\n",
    b"Subject: eight bits \xe4\xf6\xfc \xff\r\nX-Utf: \xc3\xa4\r\n\r\n\xe4\xf6\xfc\xff\x80\r\n",
    b"Subject: a lone \r CR \r\n\r\nin the body \r too\r\n",
    b"Subject: dots\r\n\r\n.\r\n..\r\n.x\r\n",
    b"From nobody Thu Jan  1 00:00:00 1970\r\nSubject: mbox\r\n\r\nbody\r\n",
    b"Subject: no empty line\r\nthis is no field\r\nX-Later: field\r\n\r\nbody\r\n",
    b"Subject: forged\r\nX-Spam-Status: No\r\n\tfolded\r\nX-SPAM-FLAG: NO\r\nX-Spam-Flag:\r\n\r\nb\r\n",
    b"X-Spam-Status : NO\r\nX-NBSTREAM\t: ham\r\nx-spam-flag:NO\r\nSubject: spaces before colons\r\n\r\nb\r\n",
    b"X-Spam-Flag: NO\r\nX-A: a\rX-Nbstream: ham\r\nX-Nbstream: ham\r\nSubject: lone CR\r\n\r\nb\r\n",
    b"Subject: long field\r\nX-Long: " + b"x" * 900 + (b"\r\n " + b"y" * 900) * 200 + b"\r\n\r\nbody\r\n",
    b"Subject: chunks\r\n\r\n" + b"".join(b"%07d" % number + b"z" * 57 + b"\r\n" for number in range(3000)),
    b"Subject: no line end\r\n\r\n" + b"w" * 70000 + b"\r\n",
    b"Received: a\r\n" * 30 + b"Subject: many hops\r\n\r\nbody\r\n",
]


def deliver_both(site: Site, messages: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Each message as it arrives with the milter and without one, below the Received field of Postfix."""
    for port, recipient in ((site.postfix.outside, "judged"), (site.plain, "plain")):
        with site.postfix.connect(port, STRANGER) as client:
            client.ehlo()
            for number, message in enumerate(messages):
                client.mail(f"{number}@elsewhere.example")
                client.rcpt(f"{recipient}@example.org")
                code, reply = client.data(re.sub(rb"(?<!\r)\n", b"\r\n", message))
                assert code == 250, reply
    folders = [site.postfix.folder / "mail" / name / "new" for name in ("judged", "plain")]
    wait_until(lambda: all(len(list(folder.glob("*"))) == len(messages) for folder in folders), seconds=600)
    judged, plain = (
        {parse_sender(raw): raw for path in folder.glob("*") for raw in [path.read_bytes()]} for folder in folders
    )
    for folder in folders:
        for path in folder.glob("*"):
            path.unlink()
    yield from ((judged[number], plain[number]) for number in range(len(messages)))


def parse_sender(raw: bytes) -> int:
    return int(raw.removeprefix(b"Return-Path: <").partition(b"@")[0])


def below_received(raw: bytes) -> bytes:
    match = _ABOVE.match(raw)
    assert match
    return raw[match.end() :]


def without_verdict_fields(raw: bytes) -> bytes:
    head, blank, body = raw.partition(b"\n\n")
    return _VERDICT_FIELD.sub(b"", head + blank[:1]) + blank[1:] + body


def assert_nothing_else_changes(site: Site, messages: Sequence[bytes]) -> None:
    for judged, plain in deliver_both(site, messages):
        changed, unchanged = below_received(judged), below_received(plain)
        assert changed.startswith((b"X-Spam-Flag: YES\nX-Spam-Status: ", b"X-Spam-Status: "))
        head = changed.partition(b"\n\n")[0]
        assert [len(re.findall(rb"(?mi)^" + name + rb"[ \t]*:", head)) for name in ONCE] == [1] * len(ONCE)
        assert without_verdict_fields(changed) == without_verdict_fields(unchanged)
        if Message.parse(unchanged).is_mail:  # what has no field of mail becomes mail by its delivery
            own = re.search(rb"\n\tmodel=default; id=([a-z2-7]{24})\n", changed)
            assert own
            assert own[1].decode() == MessageReader().read_taught(judged).key


def test_real_messages_arrive_as_they_were_sent(site: Site, tmp_path: Path) -> None:
    assert_nothing_else_changes(site, [raw for _, raw in trec_stream(tmp_path, 2000)])


# Without the daemon
