"""The digest end to end: a daemon holds spam back, and its recipients are told through the next hop."""

from __future__ import annotations

import asyncio
import email
import email.policy
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, command
from tests.harness.digest_site import body_of
from tests.harness.mail_server import MailServer, open_mail_server
from tests.integration.test_quarantine import ODD, send, teach


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server in a loop of its own, since the daemon is a process."""
    started, servers, loop = threading.Event(), [], asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with open_mail_server() as server:
            servers.append(server)
            started.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait()
    yield servers[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


@pytest.fixture
def daemon(tmp_path: Path, redis_binary: Path, mail_server: MailServer) -> Iterator[DaemonProcess]:
    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {tmp_path / 'state'}\nmodel: {{min_learned: 3}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\nlog: {format: json}\n"
        f"relay: {{next_hop: 'smtp://{mail_server.host}:{mail_server.port}'}}\n"
        "verdict: {spam: 0.6}\nactions: {spam: quarantine}\n"
        "digest: {recipients: ['*@held.example'], sender: filter@held.example, base_url: 'https://m.example'}\n"
        "lists: {block: ['blocked.example']}\n"
        "models: [{match: '*@models.example', name: '{address}'}]\n"
    )
    with DaemonProcess(config) as process:
        yield process


def settle(daemon: DaemonProcess) -> None:
    """Let the files of the quarantine have come ten minutes ago."""
    for file in (daemon.config.parent / "state/Quarantine/new").iterdir():
        seconds, _, rest = file.name.partition(".")
        file.rename(file.with_name(f"{int(seconds) - 600}.{rest}"))


def test_users_are_told_of_what_was_quarantined(daemon: DaemonProcess, mail_server: MailServer) -> None:
    teach(daemon)
    assert send(daemon, ODD, "a@held.example", "b@held.example", "c@free.example") == "250 2.0.0 Accepted"

    fresh = command("digest", "a@held.example", "-c", daemon.config)
    assert (fresh.returncode, fresh.stdout) == (66, "")
    settle(daemon)
    shown = command("digest", "a@held.example", "-c", daemon.config)
    page = command("digest", "--html", "a@held.example", "-c", daemon.config)
    stranger = command("digest", "c@free.example", "-c", daemon.config)
    one = command("digest", "--send", "a@held.example", "-c", daemon.config)
    all_others = command("digest", "--send", "-c", daemon.config)
    nobody = command("digest", "--send", "-c", daemon.config)
    none_again = command("digest", "--send", "a@held.example", "-c", daemon.config)

    assert shown.stdout.startswith("From: filter@held.example\nTo: a@held.example\nSubject: 1 message to you in")
    assert "Subject:  free prize ␛]0;x␇\n" in shown.stdout
    assert "<!doctype html>" in page.stdout
    assert (stranger.returncode, "gets no digest" in stranger.stderr) == (66, True)
    assert [one.stdout, all_others.stdout] == ["1 sent, 0 refused, 0 deferred\n"] * 2
    assert (nobody.returncode, nobody.stdout) == (0, "0 sent, 0 refused, 0 deferred\n")
    assert "nothing new is quarantined" in nobody.stderr
    assert (none_again.returncode, none_again.stdout) == (66, "")
    assert "nothing new is quarantined for a@held.example" in none_again.stderr
    mails = {mail.recipients[0]: mail for mail in mail_server.received}
    assert sorted(mails) == ["a@held.example", "b@held.example"]
    mail = email.message_from_bytes(mails["b@held.example"].content, policy=email.policy.default)
    assert re.search(r"https://m\.example/my/link/release\?link=\w", body_of(mail, "plain"))
    assert b"X-Nbstream" not in mails["b@held.example"].content  # it was not checked
    assert daemon.metric('nbstream_digests_total{outcome="sent"}') == 0  # those of the daemon itself
