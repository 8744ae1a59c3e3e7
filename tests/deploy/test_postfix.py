"""The pieces for Postfix: read by Postfix, and at work between a real Postfix and a real daemon."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nbstream.addresses import TcpAddress
from nbstream.daemon import config
from nbstream.daemon.status import DaemonStatus
from nbstream.doctor import canary, examination
from nbstream.doctor.canary import send_canary
from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.harness.examined_sites import the
from tests.harness.postfix import (
    AFTER_QUEUE,
    DEPLOY,
    FRIEND,
    MESSAGE_SIZE_LIMIT,
    MILTER,
    STRANGER,
    WAY_BACK,
    Postfix,
    logins,
    open_folder,
)
from tests.harness.programs import needs_root

SETTINGS = DEPLOY / "postfix" / "nbstream.yaml"


@pytest.fixture
def postfix(program: Callable[[str], str]) -> Iterator[Postfix]:
    """Configured, not running."""
    program("postconf")
    with open_folder() as folder:
        yield Postfix(folder, program)


def entries(postfix: Postfix, parameter: str) -> str:
    return " ".join(postfix.postconf("-x", "-h", parameter).split())


def service(postfix: Postfix, port: int) -> dict[str, str]:
    lines = postfix.postconf("-P", f"127.0.0.1:{port}/inet").splitlines()
    pairs = (line.partition(" =") for line in lines)
    return {name.rpartition("/")[2]: value.strip() for name, _, value in pairs}


def test_what_the_site_had_stays_and_the_way_back_leads_to_it(program: Callable[[str], str]) -> None:
    program("postconf")
    names = ("transport_maps", "smtpd_relay_restrictions", "smtpd_restriction_classes", "smtpd_milters")
    main = "transport_maps = inline:{ other.example=discard }\nsmtpd_milters = inet:127.0.0.1:8891\n"
    main += "smtpd_restriction_classes = mine\nmine = permit\n"
    with open_folder() as folder:
        postfix = Postfix(folder, program, (), main)
        services, before = postfix.postconf("-M"), {name: entries(postfix, name) for name in names}

        postfix.follow(*AFTER_QUEUE, *MILTER)
        once = {name: entries(postfix, name) for name in names}
        postfix.follow(*AFTER_QUEUE, *MILTER)
        twice = {name: entries(postfix, name) for name in names}
        postfix.follow(WAY_BACK)

        assert once == twice
        assert all(value in once[name] and value != once[name] for name, value in before.items())
        assert {name: entries(postfix, name) for name in names} == before
        assert postfix.postconf("-M") == services
        assert "content_filter" not in service(postfix, postfix.outside)
        assert "nbstream" not in postfix.postconf("-n")


@dataclass(slots=True)
class Site:
    """A running Postfix with a running daemon behind it."""

    postfix: Postfix
    settings: Path
    daemon: DaemonProcess

    def send(self, source: str, recipient: str, text: str, sender: str = "someone@elsewhere.example") -> None:
        with self.postfix.connect(self.postfix.outside, source) as client:
            client.sendmail(sender, recipient, text)

    def learned(self, label: str) -> float:
        return self.daemon.metric(f'nbstream_feedback_total{{label="{label}",outcome="learned",source="smtp"}}')


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path) -> Iterator[Site]:  # the daemon needs a server
    program("postfix")
    needs_root()
    with open_folder() as folder:
        postfix = Postfix(folder, program)
        settings = folder / "nbstream.yaml"
        text = postfix.own(SETTINGS.read_text()).replace("/var/lib/nbstream", f"{folder}/state")
        text = text.replace("listeners:\n", "listeners:\n  http: {listen: 127.0.0.1:0}\n")
        settings.write_text(text)
        with logins(folder / "auth"), postfix.running():
            whole = Site(postfix, settings, DaemonProcess(settings).ready())
            yield whole
            whole.daemon.kill()


def test_mail_from_outside_is_delivered_once_with_one_verdict(site: Site) -> None:
    site.send(STRANGER, "team@example.org", "Subject: m-outside\nX-Spam-Flag: YES\nX-Nbstream: ham\n\nhello\n")
    message = site.postfix.arrived("m-outside")
    assert message.count(b"\nX-Nbstream: unsure;") == 1
    assert message.count(b"X-Nbstream:") == 1
    assert b"X-Spam-Flag" not in message
    assert message.count(b"\nReceived:") == 2
    assert b"\nMessage-Id:" not in message  # headers are not completed
    assert message.endswith(b"\n\nhello\n")


async def test_a_canary_comes_from_the_mail_server_through_its_queue(site: Site) -> None:
    examined = examination.Site(config.load_settings(site.settings), DaemonStatus(os.getpid()))

    found = await send_canary(examined, "ann@example.org", TcpAddress("127.0.0.1", site.postfix.outside))

    assert [finding.severity for finding in found] == ["ok", "ok"], found
    the(found, canary.DELIVERED)
    the(found, canary.LED)
    wait_until(lambda: len(site.postfix.delivered('reason="canary of nbstream doctor"')) == 2)


async def test_a_canary_that_the_mail_server_leads_past_the_daemon_is_missed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "QUEUE_SECONDS", 1.0)
    examined = examination.Site(config.load_settings(site.settings), DaemonStatus(os.getpid()))

    # The service that mail comes back to does not lead it to the daemon.
    found = await send_canary(examined, "ann@example.org", TcpAddress("127.0.0.1", site.postfix.reinjection))

    the(found, canary.NOT_LED)


def test_the_largest_message_that_comes_in_comes_back(site: Site) -> None:
    sizes = iter(range(MESSAGE_SIZE_LIMIT, 0, -100))
    with site.postfix.connect(site.postfix.outside, STRANGER) as client:
        code = 0
        while code != 250:
            lines = (b"x" * 98 + b"\r\n") * (next(sizes) // 100)
            client.ehlo_or_helo_if_needed()
            client.mail("someone@elsewhere.example")
            client.rcpt("ann@example.org")
            code, _ = client.data(b"Subject: m-size\r\n\r\n" + lines)
    assert site.postfix.arrived("m-size").count(b"\nX-Nbstream:") == 1


@pytest.mark.parametrize(
    "address",
    [
        "spam@nbstream.invalid",
        "ham@nbstream.invalid",
        "SPAM@NBstream.Invalid",
        "spam+more@nbstream.invalid",
        "other@nbstream.invalid",
        "spam@sub.nbstream.invalid",
        "spam%nbstream.invalid@example.org",
        "spam%nbstream.invalid@[127.0.0.1]",
        "@example.org:spam@nbstream.invalid",
        '"spam@nbstream.invalid"@example.org',
        "spam@nbstream.invalid@example.org",
        "nbstream.invalid!spam",
        "nbstream.invalid!spam@example.org",
    ],
)
def test_a_stranger_is_refused_at_every_spelling_of_a_feedback_address(site: Site, address: str) -> None:
    code, text = site.postfix.answer(STRANGER, address)
    assert code >= 450, text  # 454 where the site has defer_unauth_destination, as Debian


def test_a_client_of_the_own_networks_teaches(site: Site) -> None:
    before = site.learned("spam")
    site.send(
        FRIEND,
        "spam@nbstream.invalid",
        "Subject: m-teach\nFrom: win@example.com\n\nfree prize\n",
        "ann@example.org",
    )
    wait_until(lambda: site.learned("spam") == before + 1)
    assert not site.postfix.delivered("m-teach")


def test_an_authenticated_user_teaches_from_anywhere(site: Site) -> None:
    before = site.learned("ham")
    with site.postfix.connect(site.postfix.submission, STRANGER) as client:
        client.login("ann", "secret")
        client.sendmail("ann@example.org", "ham@nbstream.invalid", "Subject: m-user\n\nlunch on Friday\n")
    wait_until(lambda: site.learned("ham") == before + 1)
    newest = json.loads(command("history", "-c", site.settings, "--label", "ham", "--limit", "1", "--json").stdout)
    assert newest["actor"] == STRANGER  # the user's address, not Postfix's


@pytest.mark.parametrize("source", [STRANGER, FRIEND])
def test_mail_from_a_feedback_address_is_refused_so_that_no_bounce_teaches(site: Site, source: str) -> None:
    code, text = site.postfix.answer(source, "ann@example.org", sender="ham@nbstream.invalid")
    assert (code, "Feedback addresses send no mail" in text) == (550, True)


def test_a_mistyped_feedback_address_comes_back_to_its_writer(site: Site) -> None:
    site.send(FRIEND, "spm@nbstream.invalid", "Subject: m-typo\n\nfree prize\n", "ann@example.org")
    assert b"nbstream does not know this feedback address" in b" ".join(site.postfix.arrived("m-typo").split())


def test_mail_waits_while_nbstream_is_away(site: Site) -> None:
    assert site.daemon.stop() == 0
    site.daemon.kill()
    deferrals = site.postfix.log.count("status=deferred")
    site.send(STRANGER, "ann@example.org", "Subject: m-away\n\nhello\n")
    wait_until(lambda: site.postfix.log.count("status=deferred") > deferrals)
    site.daemon = DaemonProcess(site.settings).ready()
    site.postfix.flush_until(lambda: site.postfix.delivered("m-away"))
    assert site.postfix.arrived("m-away").count(b"\nX-Nbstream:") == 1
