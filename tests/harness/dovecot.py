"""A Dovecot in a folder of its own, with the pieces of ``deploy/dovecot`` added as its guide says.

It has one user, ann, whose mail belongs to a system user without rights. Beside Junk and Trash she has
mailboxes like them, which are so by their special use alone.
"""

from __future__ import annotations

import imaplib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.harness.daemon import DEADLINE_SECONDS, free_port, wait_until
from tests.harness.handbook_pages import page
from tests.harness.postfix import DEPLOY

PIECES = DEPLOY / "dovecot"
MAIL_USER = 65534
DELETED = "Gel&APY-scht"  # "Gelöscht" as IMAP writes it, RFC 3501 5.1.3

MAIN = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
listen = 127.0.0.1
protocols = imap
ssl = no
disable_plaintext_auth = no
first_valid_uid = {user}
mail_location = maildir:{folder}/mail/%u
passdb {{
  driver = passwd-file
  args = {folder}/users
}}
userdb {{
  driver = static
  args = uid={user} gid={user} home={folder}/mail/%u
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Junk {{
    auto = create
    special_use = \\Junk
  }}
  mailbox Trash {{
    auto = create
  }}
  mailbox Archive {{
    auto = create
  }}
  mailbox Junk.old {{
    auto = create
  }}
  mailbox Viruses {{
    auto = create
    special_use = \\Junk
  }}
  mailbox Gelöscht {{
    auto = create
    special_use = \\Trash
  }}
}}
!include {folder}/etc/dovecot/conf.d/*.conf
"""


class Dovecot:
    """The configuration in ``folder`` and, within ``running``, the processes; ``program`` finds Dovecot's own."""

    def __init__(self, folder: Path, program: Callable[[str], str], filter_port: int) -> None:
        for name in ("dovecot", "sievec", "/usr/lib/dovecot/imap"):  # each is of another package
            program(name)
        self.folder = folder
        self._program = program
        self._filter = filter_port
        self.port = free_port()
        self._config = folder / "dovecot.conf"
        pieces = folder / PIECES.relative_to(DEPLOY.parent)
        for path in (pieces, folder / "mail"):
            path.mkdir(parents=True)
        for piece in PIECES.iterdir():
            (pieces / piece.name).write_text(self._own(piece.read_text()))
        (folder / "users").write_text("ann:{PLAIN}secret\n")
        self._config.write_text(MAIN.format(folder=folder, port=self.port, user=MAIL_USER))
        for command in self._commands():
            subprocess.run(command, check=True, timeout=30, cwd=folder)

    def _own(self, text: str) -> str:
        """The text of a piece with the files and the port that are in use here."""
        text = text.replace("/etc/dovecot/dovecot.conf", str(self._config))
        text = re.sub(r"/(?:etc/dovecot|usr/local/lib)/", f"{self.folder}\\g<0>", text)
        return text.replace("127.0.0.1:10025", f"127.0.0.1:{self._filter}")

    def _commands(self) -> Iterator[list[str]]:
        """The commands of the guide that install the pieces."""
        guide = page("guides/dovecot.md").partition("\n## Install\n")[2].partition("\n## ")[0]
        for line in guide.splitlines():
            if line.startswith("    install "):
                yield shlex.split(self._own(line))
            elif line.startswith("    sievec "):
                name, *options = shlex.split(self._own(line))
                yield [self._program(name), *options]

    def put(self, mailbox: str, *messages: bytes) -> None:
        """Empty the mailbox and put the messages there."""
        with self._login() as session:
            session.select(mailbox)
            session.uid("STORE", "1:*", "+FLAGS", r"(\Deleted)")
            session.expunge()
            for message in messages:
                code, answer = session.append(mailbox, "", "", message)
                assert code == "OK", answer

    def move(self, source: str, target: str) -> None:
        """Move all messages as clients do that know MOVE (RFC 6851)."""
        self._transfer("MOVE", source, target)

    def copy(self, source: str, target: str) -> None:
        """Copy all messages."""
        self._transfer("COPY", source, target)

    def _transfer(self, command: str, source: str, target: str) -> None:
        with self._login() as session:
            session.select(source)
            code, answer = session.uid(command, "1:*", target)
            assert code == "OK", answer

    def count(self, mailbox: str) -> int:
        """The messages there that are not marked as deleted."""
        with self._login() as session:
            session.select(mailbox, readonly=True)
            return len(session.search(None, "UNDELETED")[1][0].split())

    def _login(self) -> imaplib.IMAP4:
        session = imaplib.IMAP4("127.0.0.1", self.port, DEADLINE_SECONDS)
        session.login("ann", "secret")
        return session

    def administer(self, *words: str) -> None:
        """Run ``doveadm``."""
        subprocess.run([self._program("doveadm"), "-c", str(self._config), *words], check=True, timeout=30)

    @property
    def log(self) -> str:
        """All that Dovecot has logged."""
        return (self.folder / "log").read_text()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start, wait for the listener, and stop at the end."""
        os.chown(self.folder / "mail", MAIL_USER, MAIL_USER)
        # In a session of its own, to know its remaining processes from those of others.
        words = [self._program("dovecot"), "-F", "-c", str(self._config)]
        process = subprocess.Popen(words, start_new_session=True)
        try:
            wait_until(lambda: self._listens(process))
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(DEADLINE_SECONDS)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_SECONDS)

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, self.log
        with suppress(OSError), imaplib.IMAP4("127.0.0.1", self.port, DEADLINE_SECONDS):
            return True
        return False
