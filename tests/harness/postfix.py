"""A Postfix in a folder of its own, which the commands of a guide connect to nbstream as they stand there.

It serves example.org with the mailboxes ann, bob and full; team@example.org is an alias of ann's. 127.0.0.1 is its
network; 127.0.0.2, which Linux takes for loopback as well, is a stranger.
"""

from __future__ import annotations

import os
import re
import signal
import smtplib
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import chown

from tests.harness.daemon import DEADLINE_SECONDS, free_port, wait_until
from tests.harness.handbook_pages import fenced, page, section

DEPLOY = Path(__file__).parents[2] / "deploy"
FRIEND = "127.0.0.1"
STRANGER = "127.0.0.2"
MESSAGE_SIZE_LIMIT = 100_000
_GREETING_SECONDS = 5.0

MAIN = """\
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = mx.example.org
mydestination =
mynetworks = 127.0.0.1/32
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
alias_database =
message_size_limit = {limit}
queue_run_delay = 1s
minimal_backoff_time = 1s
maximal_backoff_time = 1s
smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination
smtpd_sasl_type = dovecot
smtpd_sasl_path = {folder}/auth
virtual_alias_maps = inline:{{ team@example.org=ann@example.org }}
virtual_mailbox_domains = example.org
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = inline:{{ ann@example.org=ann/, bob@example.org=bob/, full@example.org=full/ }}
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
"""

MASTER = """\
127.0.0.1:{outside} inet n - n - - smtpd
127.0.0.1:{submission} inet n - n - - smtpd
    -o smtpd_sasl_auth_enable=yes
    -o smtpd_relay_restrictions=permit_sasl_authenticated,reject
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""


PIECES = ("postfix", "lmtp")
"""Folders of ``deploy`` that the commands of the guides copy from."""
GUARD = ("postfix.md", "Guard the feedback addresses")
SERVICES = ("postfix.md", "The way to nbstream and back")
AFTER_QUEUE = (GUARD, SERVICES, ("postfix.md", "After the queue"))
BEFORE_QUEUE = (GUARD, SERVICES, ("postfix.md", "Before the queue"))
MILTER = (("postfix.md", "Milter"),)
LMTP = (GUARD, ("next-hop.md", "Postfix, nbstream, Dovecot by LMTP"))
WAY_BACK = ("postfix.md", "The way back")

SHELL_FUNCTIONS = """\
cool() {{ touch -d @0 "{etc}/main.cf" "{etc}/master.cf"; }}
postconf() {{ cool; case "$1" in -c) "{postconf}" "$@" ;; *) "{postconf}" -c "{etc}" "$@" ;; esac }}
postfix() {{ case "$1" in reload) ;; *) "{postfix}" -c "{etc}" "$@" ;; esac }}
install() {{ :; }}
systemctl() {{ :; }}
systemd-tmpfiles() {{ :; }}
doveadm() {{ :; }}
cp() {{ :; }}
"""


class Postfix:
    """The configuration in ``folder`` and, within ``running``, the processes; ``program`` finds Postfix's own.

    ``steps`` are pages of the guides with headings whose commands connect it; ``main`` and ``services`` are what
    its main.cf and master.cf have besides. ``pieces`` are texts in the place of files of ``deploy``.
    """

    def __init__(
        self,
        folder: Path,
        program: Callable[[str], str],
        steps: Sequence[tuple[str, str]] = AFTER_QUEUE,
        main: str = "",
        services: str = "",
        pieces: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.program = program
        self.outside, self.submission, self.filter, self.reinjection = (free_port() for _ in range(4))
        for name in ("etc", "queue", "data", "mail"):
            (folder / name).mkdir()
        self._write("main.cf", MAIN.format(folder=folder, limit=MESSAGE_SIZE_LIMIT) + main)
        self._write("master.cf", MASTER.format(outside=self.outside, submission=self.submission) + services)
        for path in (path for name in PIECES for path in (DEPLOY / name).glob("*.cf")):
            name = path.relative_to(DEPLOY).as_posix()
            copy = folder / "deploy" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(self.own((pieces or {}).get(name, path.read_text())))
        self.follow(*steps)

    def follow(self, *steps: tuple[str, str]) -> None:
        """Run the commands below these headings of the guides, of which none warns of anything."""
        shell = SHELL_FUNCTIONS.format(
            postconf=self.program("postconf"), postfix=self.program("postfix"), etc=self.folder / "etc"
        )
        commands = "".join(
            block for name, heading in steps for block in fenced(section(page(f"guides/{name}"), heading), "sh")
        )
        words = ["bash", "-euc", shell + self.own(commands)]
        result = subprocess.run(words, cwd=self.folder, timeout=60, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert "warning" not in result.stderr, result.stderr
        self.cool()

    def own(self, text: str) -> str:
        """The text of a piece with the ports, and the name of the service on port 25, that are in use here."""
        text = text.replace("127.0.0.1]:10025", f"127.0.0.1]:{self.filter}")
        text = text.replace("127.0.0.1:10025", f"127.0.0.1:{self.filter}")
        text = text.replace("127.0.0.1:10026", f"127.0.0.1:{self.reinjection}")
        return text.replace("smtp/inet", f"127.0.0.1:{self.outside}/inet")

    def _write(self, name: str, text: str) -> None:
        (self.folder / "etc" / name).write_text(_without_overridden(text))

    def cool(self) -> None:
        """Date the files back: Postfix waits two seconds for one that has just been written."""
        for name in ("main.cf", "master.cf"):
            os.utime(self.folder / "etc" / name, (0, 0))

    def postconf(self, *options: str) -> str:
        """What Postfix reads from its configuration."""
        return self.run("postconf", *options)

    def run(self, name: str, *options: str) -> str:
        """Run one of Postfix's own programs on the queue, and return what it prints."""
        words = self._command(name, *options)
        return subprocess.run(words, check=True, timeout=30, capture_output=True, text=True).stdout

    def connect(self, port: int, source: str, seconds: float = DEADLINE_SECONDS) -> smtplib.SMTP:
        """A client at the address ``source``, each of whose answers may take so long."""
        return smtplib.SMTP(FRIEND, port, "client.example", seconds, (source, 0))

    def answer(self, source: str, recipient: str, sender: str = "someone@elsewhere.example") -> tuple[int, str]:
        """The answer to a recipient on port 25; to the sender, if that is refused at once."""
        with self.connect(self.outside, source) as client:
            client.ehlo()
            code, text = client.mail(sender)
            if code == 250:
                code, text = client.rcpt(recipient)
            return code, text.decode()

    def arrived(self, marker: str) -> bytes:
        """Return the one message with this marker, once it is delivered."""
        wait_until(lambda: self.delivered(marker))
        (message,) = self.delivered(marker)
        return message

    def make_socket_folder(self) -> None:
        """Make the folder of the daemon's sockets within the queue, as deploy/systemd/nbstream.tmpfiles has it."""
        sockets = self.folder / "queue" / "nbstream"
        sockets.mkdir()
        chown(sockets, group="postfix")
        sockets.chmod(0o2710)

    def delivered(self, marker: str) -> list[bytes]:
        """The messages in the mailbox that contain the marker."""
        messages = [path.read_bytes() for path in self.folder.glob("mail/ann/new/*")]
        return [message for message in messages if marker.encode() in message]

    def flush_until(self, condition: Callable[[], object]) -> None:
        """Have waiting mail sent again until ``condition()`` holds: one scan may miss mail that is under way."""

        def holds() -> object:
            reached = condition()
            if not reached:
                self.run("postqueue", "-f")
            return reached

        wait_until(holds)

    @property
    def log(self) -> str:
        """All that Postfix has logged."""
        return (self.folder / "log").read_text()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start, wait for the listeners, and stop at the end."""
        chown(self.folder / "data", "postfix")
        os.chown(self.folder / "mail", 65534, 65534)
        # In a session of its own, to know its remaining processes from those of others.
        process = subprocess.Popen(self._command("postfix", "start-fg"), start_new_session=True)
        try:
            wait_until(lambda: self._listens(process))
            yield
        finally:
            subprocess.run(self._command("postfix", "stop"), check=False, timeout=30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_SECONDS)

    def _command(self, name: str, *options: str) -> list[str]:
        return [self.program(name), "-c", str(self.folder / "etc"), *options]

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, self.log
        # Not the whole time for one attempt: where another has the port, Postfix ends, and its log tells.
        with suppress(OSError), self.connect(self.outside, FRIEND, _GREETING_SECONDS):
            return True
        return False


def _without_overridden(text: str) -> str:
    """The text of a main.cf or master.cf without the entries that a later one of the same name overrides.

    Every process of Postfix warns of such an entry. At the start postlogd may then wait for itself: its socket is
    full of these warnings, and it adds one before it reads them.
    """
    entries = re.split(r"\n(?![ \t])", text)
    names = [match[0] if (match := re.match(r"\w+(?=\s*=)", entry)) else None for entry in entries]
    kept = [entry for i, entry in enumerate(entries) if names[i] is None or names[i] not in names[i + 1 :]]
    return "\n".join(kept)


class _Login(socketserver.StreamRequestHandler):
    """Dovecot's side of its authentication protocol 1, which says yes to every user."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            self.wfile.write(b"VERSION\t1\t0\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t1\nDONE\n")
            for line in self.rfile:
                command, number, *_ = line.rstrip(b"\n").split(b"\t")
                if command == b"AUTH":
                    self.wfile.write(b"OK\t" + number + b"\tuser=ann\n")


@contextmanager
def logins(socket: Path) -> Iterator[None]:
    """A server on ``socket`` that Postfix may ask about users."""
    with socketserver.ThreadingUnixStreamServer(str(socket), _Login) as server:
        socket.chmod(0o666)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join(DEADLINE_SECONDS)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that Postfix's own users may enter, unlike pytest's."""
    # The embedded Redis of a command that has ended may still be removing its socket.
    with tempfile.TemporaryDirectory(prefix="postfix-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
