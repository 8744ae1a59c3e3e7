"""The pieces of ``deploy/pipe`` at work in the programs that they are for, with a real daemon."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nbstream.mail import header_edits
from nbstream.mail.header_edits import HeaderEdits
from nbstream.policy.header import FilterMarks
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command
from tests.harness.filter_script import PIECES, SCRIPT, run
from tests.harness.handbook_pages import page
from tests.harness.postfix import open_folder

USER = 65534
SPAM = b'From: "Prize Office" <winner@offers.example>\nSubject: You have won\n\nClaim your free prize now.\n'
HAM = b"From: Ann <ann@example.org>\nSubject: Lunch?\n\nShall we have lunch on Friday?\n"
UNSURE = b"From: Bob <bob@example.com>\nSubject: Minutes\n\nAttached.\n"
LINE = b"From ann@example.org Mon Nov 23 10:00:00 2026\n"
SETTINGS = """\
state_dir: {folder}/state
listeners:
  smtp: null
  http: {{listen: "127.0.0.1:0"}}
  spamd: {{listen: "unix:{folder}/spamd.sock mode=0666"}}
model: {{min_learned: 1}}
verdict: {{spam: 0.54, unsure: 0.45}}
log: {{format: json}}
"""


@dataclass(slots=True)
class Site:
    """A daemon that has learned a message of each class, and a home in which ``filter_path`` asks it."""

    folder: Path
    home: Path
    daemon: DaemonProcess

    @property
    def socket(self) -> Path:
        return self.folder / "spamd.sock"

    @property
    def filter_path(self) -> Path:
        return self.folder / "bin" / "nbstream-filter"

    def ask(self, path: Path) -> None:
        """Install the script so that it asks at this socket."""
        self.filter_path.write_text(f'#!/bin/sh\nexec "{self.folder}/script" --socket "{path}" "$@"\n')

    def piece(self, name: str, into: Path, mode: int = 0o600) -> Path:
        """Install a piece with the paths that are in use here."""
        text = (PIECES / name).read_text().replace("/etc/dovecot/nbstream", str(self.folder))
        text = text.replace("$HOME", str(self.home))  # the user's own, in the system's list, does not exist
        into.write_text(re.sub(r"/usr/local/(bin|lib/nbstream)\b", str(self.filter_path.parent), text))
        into.chmod(mode)
        os.chown(into, USER, USER)
        return into

    def run(self, *words: str | Path, message: bytes = b"", **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a program as the user whose home it is."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "USER": "nobody", "LOGNAME": "nobody"}
        return subprocess.run(
            words,
            input=message,
            env=environment | more,
            cwd=self.home,
            user=USER,
            group=USER,
            extra_groups=[],
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def unlearn(self, message: bytes) -> None:
        """Take a lesson back, so that the other tests find the model as they know it."""
        (self.folder / "taught.eml").write_bytes(message)
        assert command("unlearn", "-c", self.daemon.config, self.folder / "taught.eml").returncode == 0

    def delivered(self, folder: str) -> list[bytes]:
        """Take the new messages out of a folder of the home."""
        paths = list((self.home / folder / "new").glob("*"))
        messages = [path.read_bytes() for path in paths]
        for path in paths:
            path.unlink()
        return messages


@pytest.fixture(scope="module")
def running(redis_binary: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    with open_folder() as folder:
        settings = folder / "nbstream.yaml"
        settings.write_text(SETTINGS.format(folder=folder))
        with DaemonProcess(settings) as daemon:
            site = Site(folder, folder / "home", daemon)
            site.filter_path.parent.mkdir()
            site.ask(site.socket)
            (folder / "script").write_bytes(SCRIPT.read_bytes())
            for path in (site.filter_path, folder / "script"):
                path.chmod(0o755)
            for label, message in (("spam", SPAM), ("ham", HAM)):
                for taught in (message, UNSURE + label.encode()):
                    done = run(taught, site.socket, "--learn", label)
                    assert done.stdout.decode() == f"learned as {label}\n"
            yield site
            assert daemon.stop() == 0


@pytest.fixture
def site(running: Site) -> Site:
    """With an empty home."""
    subprocess.run(["rm", "-rf", running.home], check=True)
    for name in ("Maildir", "Maildir/.Junk"):
        for part in ("new", "cur", "tmp"):
            (running.home / name / part).mkdir(parents=True)
    chown(running.home)
    running.ask(running.socket)
    return running


def chown(folder: Path) -> None:
    """Give all of the folder to the user."""
    subprocess.run(["chown", "-R", f"{USER}:{USER}", folder], check=True)


# The script and a daemon


@pytest.mark.parametrize(("message", "code"), [(HAM, 0), (SPAM, 1), (UNSURE, 2)])
@pytest.mark.parametrize("line", [b"", LINE])
def test_the_verdict_is_in_the_header_and_in_the_exit_code(
    running: Site, message: bytes, code: int, line: bytes
) -> None:
    done = run(line + message, running.socket, "--exit-code")

    name = ["ham", "spam", "unsure"][code]
    assert (done.returncode, done.stderr) == (code, b""), done
    assert done.stdout.startswith(line + b"X-Spam-")
    assert done.stdout.endswith(b"\n" + message)
    assert f"\nX-Nbstream: {name}; ".encode() in done.stdout
    assert run(line + message, running.socket, "--check").stdout.decode() == f"{name}\n"
    # What was filtered before has the same verdict, and every field once.
    assert run(done.stdout, running.socket, "--exit-code").stdout == done.stdout


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\n",
        b"no header at all",
        b"Subject: no body\n",
        b"Subject: no body\n\n",
        b"\nbody alone\n",
        HAM.replace(b"\n", b"\r\n"),
        b"Subject: x\r\rold\rline\rends\r",
        b"Subject: x\n\r\nmixed\r\n\n",
        b"Subject: \xff\0\n\n\0\xff\r\n.\r\n..\nFrom here\n",
    ],
)
def test_every_byte_but_the_fields_stays(running: Site, message: bytes) -> None:
    done = run(message, running.socket)
    header, body = header_edits.split_header_and_body(message)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(body)
    marked = done.stdout.removesuffix(body)
    assert b"X-Nbstream: " in marked
    removal = HeaderEdits(removed_names=FilterMarks().names)
    assert header_edits.rewrite_header(marked, removal) == header_edits.rewrite_header(header, removal)


def test_learning_is_in_the_history_with_the_user(running: Site) -> None:
    message = SPAM + b"once more\n"
    assert run(message, running.socket, "--learn", "spam").stdout == b"learned as spam\n"
    assert run(message, running.socket, "--learn", "spam").stdout == b"already spam\n"
    filtered = run(message, running.socket).stdout
    assert run(filtered, running.socket, "--learn", "ham").stdout == b"learned as ham\n"
    history = " ".join(command("history", "-c", running.daemon.config).stdout.split())
    assert f"spamd user {pwd.getpwuid(os.getuid()).pw_name}" in history
    running.unlearn(message)
    assert run(b"", running.socket, "--learn", "spam").returncode == 65


# The programs


def test_procmail(site: Site, program: Callable[[str], str]) -> None:
    rc = site.piece("procmailrc", site.home / ".procmailrc")
    for message, folder in ((SPAM, "Maildir/.Junk"), (HAM, "Maildir"), (UNSURE, "Maildir")):
        done = site.run(
            program("procmail"), "-p", "-m", rc, message=b"From ann@example.org Mon Nov 23\n" + message
        )

        assert done.returncode == 0, done
        (delivered,) = site.delivered(folder)
        assert delivered.startswith(b"X-Spam-") or delivered.startswith(b"From ann")
        assert delivered.endswith(b"\n" + message + b"\n")  # procmail ends each message with an empty line
        assert b"\nX-Nbstream: " in delivered
    assert b"fail" not in (site.home / "procmail.log").read_bytes().lower()

    site.ask(site.folder / "missing")
    assert site.run(program("procmail"), "-p", "-m", rc, message=LINE + SPAM).returncode == 0
    assert site.delivered("Maildir") == [SPAM + b"\n"]
    (recipe,) = re.findall(r"(?ms)^    :0 fw\n    \|[^\n]* defer\n.*?^    }\n", page("guides/pipe.md"))
    text = recipe.replace("/usr/local/bin/nbstream-filter", str(site.filter_path))
    rc.write_text(f"SHELL=/bin/sh\nDEFAULT={site.home}/Maildir/\n{text}")
    assert site.run(program("procmail"), "-p", "-m", rc, message=LINE + SPAM).returncode == 75
    assert site.delivered("Maildir") == []


def test_maildrop(site: Site, program: Callable[[str], str]) -> None:
    rc = site.piece("mailfilter", site.home / ".mailfilter")
    for message, folder in ((SPAM, "Maildir/.Junk"), (HAM, "Maildir"), (UNSURE, "Maildir")):
        done = site.run(program("maildrop"), ".mailfilter", message=message)

        assert (done.returncode, done.stderr) == (0, b"")
        (delivered,) = site.delivered(folder)
        assert delivered.endswith(b"\n" + message)
        assert b"X-Nbstream: " in delivered

    site.ask(site.folder / "missing")
    assert site.run(program("maildrop"), ".mailfilter", message=SPAM).returncode == 0
    assert site.delivered("Maildir") == [SPAM]
    rc.write_text(rc.read_text().replace("nbstream-filter", "nbstream-filter --on-failure defer"))
    assert site.run(program("maildrop"), ".mailfilter", message=SPAM).returncode == 75
    assert site.delivered("Maildir") == []


def test_sieve(site: Site, program: Callable[[str], str]) -> None:
    lda = program("/usr/lib/dovecot/dovecot-lda")
    conf, sieve = site.folder / "dovecot.conf", site.piece("junk.sieve", site.folder / "junk.sieve", 0o644)
    piece = site.piece("dovecot-2.3.conf", site.folder / "filter.conf", 0o644)
    conf.write_text(
        f"base_dir = {site.folder}/run\nlog_path = /dev/stderr\nssl = no\nfirst_valid_uid = {USER}\n"
        f"postmaster_address = postmaster@example.org\nhostname = mx.example.org\n"
        f"mail_location = maildir:{site.home}/Maildir\n!include {piece}\n"
    )
    compiled = site.run(program("sievec"), "-c", conf, sieve, site.home / "junk.svbin")
    assert compiled.returncode == 0, compiled
    for message, folder in ((SPAM, "Maildir/.Junk"), (HAM, "Maildir"), (UNSURE, "Maildir")):
        done = site.run(lda, "-c", conf, "-f", "bob@example.com", message=message)

        assert done.returncode == 0, done
        (delivered,) = site.delivered(folder)
        assert delivered.replace(b"\r\n", b"\n").endswith(b"\n" + message)
        assert b"X-Nbstream: " in delivered

    site.ask(site.folder / "missing")
    done = site.run(lda, "-c", conf, "-f", "bob@example.com", message=SPAM)
    assert (done.returncode, b"nbstream-filter: " in done.stderr) == (0, True)
    (delivered,) = site.delivered("Maildir")
    assert delivered.replace(b"\r\n", b"\n").endswith(SPAM)
    assert b"X-Nbstream: " not in delivered


def test_notmuch(site: Site, program: Callable[[str], str]) -> None:
    for number, message in enumerate((SPAM, HAM, UNSURE)):
        path = site.home / "Maildir/cur" / f"{number}:2,"
        path.write_bytes(f"Message-ID: <{number}@example.org>\n".encode() + message)
    config = site.home / ".notmuch-config"
    config.write_text(
        f"[database]\npath={site.home}/Maildir\n[user]\nprimary_email=ann@example.org\n[new]\ntags=new\n"
    )
    hooks = site.home / "Maildir/.notmuch/hooks"
    hooks.mkdir(parents=True)
    site.piece("notmuch-post-new", hooks / "post-new", 0o755)
    chown(site.home)

    done = site.run(program("notmuch"), "new", NOTMUCH_CONFIG=str(config))
    assert done.returncode == 0, done

    dumped = site.run(program("notmuch"), "dump", NOTMUCH_CONFIG=str(config)).stdout.decode().splitlines()
    assert sorted(line for line in dumped if not line.startswith("#")) == [
        "+inbox +unread +unsure -- id:2@example.org",
        "+inbox +unread -- id:1@example.org",
        "+spam +unread -- id:0@example.org",
    ]


def test_mutt(site: Site, program: Callable[[str], str]) -> None:
    message = b"Message-ID: <mutt@example.org>\n" + SPAM + b"read in mutt\n"
    (site.home / "Maildir/cur/1:2,S").write_bytes(message)
    maildir = site.home / "Maildir"
    rc = site.piece("muttrc", site.home / ".muttrc")
    rc.write_text(f"set folder={maildir} spoolfile={maildir} mbox_type=Maildir delete=yes\n" + rc.read_text())
    chown(site.home)

    # mutt wants a terminal. After the keys of `push` it ends by itself.
    words = [program("mutt"), "-n", "-F", rc, "-f", maildir, "-e", 'push "S<quit>"']
    done = site.run(program("script"), "-qec", shlex.join(map(str, words)), "/dev/null", TERM="xterm")

    assert done.returncode == 0, done
    assert b"learned as spam" in done.stdout
    assert run(message, site.socket, "--learn", "spam").stdout == b"already spam\n"
    site.unlearn(message)
    (saved,) = (site.home / "Maildir/.Junk/cur").iterdir()
    assert saved.read_bytes().endswith(b"\n\nClaim your free prize now.\nread in mutt\n")
