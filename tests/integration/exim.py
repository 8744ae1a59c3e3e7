"""A real Exim that asks the spamd door, without being installed: its packages cannot stand beside Postfix's.

``NBSTREAM_EXIM`` names the folder that exim4-daemon-heavy and what it needs are unpacked in, as ``.ci/run`` does.
It wants a user of its own: one is shown to its processes alone, in a mount namespace, which takes root.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import chown

from tests.harness.daemon import DEADLINE_SECONDS
from tests.harness.handbook_pages import page
from tests.harness.programs import missing

_USER = 65_533
_RUN = 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"'

_CONFIGURATION = """\
primary_hostname = mx.example.org
spool_directory = {folder}/spool
log_file_path = {folder}/spool/%slog
spamd_address = {address}
hostlist relay_from_hosts = 192.0.2.1
acl_smtp_rcpt = recipient
acl_smtp_data = check
keep_environment =
never_users =

begin acl
recipient:
{recipient_acl}
  accept
check:
{data_acl}
  accept
"""


def acl(name: str) -> str:
    """What the guide says for the ACL that is called so."""
    found = re.search(rf"the ACL of `{name}`(?: with)?:\n\n((?: {{4}}.*\n)+)", page("guides/mail-servers.md"))
    assert found
    return found[1]


class Exim:
    """Takes mail by SMTP on its standard input, and queues what it accepts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = Path(os.environ.get("NBSTREAM_EXIM", "/nonexistent"))
        if not (self._root / "usr/sbin/exim4").exists():
            missing("an unpacked Exim, NBSTREAM_EXIM,")
        if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False, timeout=30).returncode:
            missing("the right to mount")
        user = f"Debian-exim:x:{_USER}:{_USER}::/:/usr/sbin/nologin\n"
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + user)
        (folder / "group").write_text(Path("/etc/group").read_text() + f"Debian-exim:x:{_USER}:\n")
        (folder / "spool").mkdir()
        chown(folder / "spool", _USER, _USER)

    def configure(self, address: str) -> None:
        """``address`` is the value of ``spamd_address``."""
        text = _CONFIGURATION.format(
            folder=self._folder,
            address=address,
            recipient_acl=acl("acl_smtp_rcpt"),
            data_acl=acl("acl_smtp_data"),
        )
        (self._folder / "exim.conf").write_text(text)

    def send(self, message: bytes) -> str:
        """The answer to the end of one message."""
        lines = [
            b"EHLO x",
            b"MAIL FROM:<a@example.org>",
            b"RCPT TO:<b@example.org>",
            b"DATA",
            message + b".",
            b"QUIT",
            b"",
        ]
        options = ["-C", str(self._folder / "exim.conf"), "-bs", "-odq"]
        found = subprocess.run(
            ["unshare", "--mount", "sh", "-c", _RUN, self._folder, self._root / "usr/sbin/exim4", *options],
            input=b"\r\n".join(lines),
            env={"LD_LIBRARY_PATH": ":".join(map(str, self._libraries()))},
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        replies = found.stdout.decode().splitlines()
        place = next((at for at, line in enumerate(replies) if line.startswith("354 ")), None)
        assert place is not None, (found, self.log())
        return replies[place + 1]

    def log(self) -> str:
        """What Exim has to say."""
        return "".join(path.read_text() for path in self._folder.glob("spool/*log"))

    def queued(self) -> list[str]:
        """The headers of what was accepted."""
        return [path.read_text() for path in self._folder.glob("spool/input/*-H")]

    def _libraries(self) -> Iterator[Path]:
        yield self._root / "usr/lib"
        yield from (self._root / "usr/lib").glob("*-linux-gnu")
