"""``nbstream learn --mailboxes`` on a site of several users, with a real Redis."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest

from nbstream.cli.commands.learn_mailboxes import SOURCE
from nbstream.mail.message import Message
from tests.cli.taught import Taught
from tests.harness.daemon import DaemonProcess
from tests.harness.postfix import open_folder
from tests.harness.samples import samples

USERS = ("ann", "ben", "cal")


def put(folder: Path, number: int, raw: bytes, flags: str) -> None:
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / "cur" / f"{number}.M1.host:2,{flags}"
    path.write_bytes(raw)
    os.utime(path, (0, 1_700_000_000 + number))


class MailSite:
    """Maildirs of three users: what they have called spam lies in Junk, ham in Archive, and the rest is unread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.template = f"{root}/%d/%n"
        self.raws: dict[str, list[bytes]] = {"spam": [], "ham": []}
        for number, (label, raw) in enumerate(samples(150)):
            account = self.account(USERS[number % 3])
            put(account / (".Junk" if label == "spam" else ".Archive"), number, raw, "S")
            self.raws[label].append(raw)
        for number, (_, raw) in enumerate(samples(30, seed=8)):
            put(self.account("ann"), 1000 + number, raw, "")

    def account(self, user: str) -> Path:
        return self.root / "example.org" / user


@pytest.fixture
def site(tmp_path: Path) -> MailSite:
    return MailSite(tmp_path / "mail")


def test_a_plan_says_what_would_be_learned_and_why_the_rest_is_not(site: MailSite, taught: Taught) -> None:
    before = taught.stored()
    out, _ = taught("learn", "--mailboxes", site.template, "--plan")
    assert "accounts: 3, messages: 180" in out
    assert f"spam: {len(site.raws['spam'])} messages of 3 accounts" in out
    assert f"ham: {len(site.raws['ham'])} messages of 3 accounts" in out
    assert "from 2026-11-21 to 2026-11-21" in out
    assert "left out: 30 unread, outside of Junk and the archive" in out
    assert taught.stored() == before


def test_a_site_is_learned_and_the_newest_tenth_says_how_good_the_model_is(site: MailSite, taught: Taught) -> None:
    out, _ = taught("learn", "--mailboxes", site.template, "--yes")
    assert f"{len(site.raws['ham'])} learned as ham, {len(site.raws['spam'])} learned as spam" in out
    assert "each checked before it was learned: ham lost 0 of" in out
    assert "spam missed 0 of" in out
    assert taught.json("history", "--source", SOURCE)


def test_a_second_run_goes_on_where_the_first_one_ended(site: MailSite, taught: Taught) -> None:
    taught("learn", "--mailboxes", site.template, "--yes")
    stored = taught.stored()
    new = b"Message-ID: <new@example.org>\nFrom: x@example.com\nSubject: new\n\nclaim the prize\n"
    put(site.account("ben") / ".Junk", 2000, new, "")
    out, _ = taught("learn", "--mailboxes", site.template, "--yes")
    assert "1 learned as spam" in out
    assert "learned before: 150" in out
    taught("unlearn", "--id", Message.parse(new).key)
    assert taught.stored() == stored


def test_what_lies_in_sent_says_whom_users_wrote_to(site: MailSite, taught: Taught) -> None:
    trusted = "correspondents: {}\ntrusted_authserv_ids: [mx.example.org]\n"
    taught.config.write_text(taught.config.read_text() + trusted)
    now = time.time()
    for number, (recipient, days) in enumerate((("bob@partner.example", 1), ("eve@old.example", 500))):
        sent = f"Date: {formatdate(now - days * 86_400)}\nMessage-ID: <{number}.7f3a9c51d2e8@example.org>\n"
        raw = f"{sent}From: ann@example.org\nTo: {recipient}\n\noffer\n".encode()
        put(site.account("ann") / ".Sent", number, raw, "S")
        os.utime(next((site.account("ann") / ".Sent" / "cur").glob(f"{number}.*")), (now, now - days * 86_400))
    answer = b"Authentication-Results: mx.example.org; dmarc=pass header.from=partner.example\n"
    answer += b"Received: from partner.example by mx.example.org\n"
    answer += b"In-Reply-To: <0.7f3a9c51d2e8@example.org>\nFrom: bob@partner.example\nSubject: Re\n\nyes\n"
    put(site.account("ann") / ".Archive", 3000, answer, "S")

    out, _ = taught("learn", "--mailboxes", site.template, "--yes")

    assert "whom users wrote to: 1 of 1 sent messages of the last 365 days say something new" in out
    (model,) = taught.json("model", "show", "-k", "5000")
    assert "known.answer" in {clue["token"] for clue in model["strongest"]["ham"]}
    out, _ = taught("learn", "--mailboxes", site.template, "--yes")
    assert "whom users wrote to: 0 of 1 sent messages of the last 365 days say something new" in out


def test_what_cannot_be_read_is_said_and_the_rest_is_learned(site: MailSite, taught: Taught) -> None:
    junk = site.account("ann") / ".Junk" / "cur"
    os.mkfifo(junk / "9:2,S")
    (junk / "8:2,S").symlink_to("/etc/passwd")
    out, _ = taught("learn", "--mailboxes", site.template, "--yes")
    assert out.count(f"skipped: 2 times, {junk.parent} first: is a link, a pipe or a device") == 1
    assert "learned as spam" in out


def test_on_a_terminal_it_asks(site: MailSite, taught: Taught, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, terminal = pty.openpty()
    os.write(leader, b"n\n")
    before = taught.stored()
    with os.fdopen(terminal, "r") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", stream)
        patched.setattr(sys.stdout, "isatty", lambda: True)
        out, _ = taught("learn", "--mailboxes", site.template)
    os.close(leader)
    assert "Learn this?" in out
    assert taught.stored() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the mailboxes of others")
def test_root_reads_the_mailboxes_and_what_is_stored_belongs_to_the_user_of_the_daemon(
    program: Callable[[str], str], redis_binary: Path
) -> None:
    daemons, setpriv = 65534, program("setpriv")
    # Python may lie where this user may not go: both keep root's rights to open files, and make them as the user.
    as_daemon = [f"--reuid={daemons}", f"--regid={daemons}", "--clear-groups"]
    as_daemon += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    with open_folder() as folder:
        site, state, config = MailSite(folder / "mail"), folder / "state", folder / "nbstream.yaml"
        state.mkdir()
        os.chown(state, daemons, daemons)
        config.write_text(
            f"state_dir: {state}\nlisteners: {{smtp: null, http: {{listen: 127.0.0.1:0}}}}\ncorrespondents: {{}}\n"
        )
        learn = [
            sys.executable,
            "-m",
            "nbstream.cli",
            "learn",
            "-c",
            str(config),
            "--mailboxes",
            site.template,
            "--yes",
        ]
        with DaemonProcess(config, setpriv, *as_daemon):
            done = subprocess.run(
                [setpriv, "--securebits=+no_setuid_fixup", *learn],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert "85 learned as ham, 65 learned as spam" in done.stdout, done.stderr
            assert {path.stat().st_uid for path in state.rglob("*")} == {daemons}
