"""A machine in a folder on which the commands of the page "Coming from another filter" run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness.daemon import DaemonProcess, command, gone, wait_until
from tests.harness.handbook_pages import fenced, page, section
from tests.harness.postfix import SHELL_FUNCTIONS, Postfix
from tests.harness.samples import samples

_SYSTEMCTL = 'systemctl() {{ echo "$@" >> "{folder}/asked"; }}\n'
_USER = 65534
_COMMAND = '#!/bin/sh\nexec "{python}" -m nbstream.cli "$@"\n'
OWN_PORT = {"listeners:\n": 'listeners:\n  http: {listen: "127.0.0.1:0"}\n'}
"""For pages that leave the port of HTTP at its default, which another test may have."""


class Machine:
    """Its files are below ``folder``; ``paths`` says which path there stands for one of the page.

    ``restarts`` are what ``systemctl restart`` and ``reload`` do with the services besides nbstream.
    """

    def __init__(
        self,
        folder: Path,
        paths: Mapping[str, str],
        restarts: Mapping[str, Callable[[], None]],
        postfix: Postfix | None = None,
    ) -> None:
        self.folder = folder
        self._paths = {
            "/etc/nbstream/": f"{folder}/",
            "/var/lib/nbstream": f"{folder}/state",
            "/var/spool/postfix": f"{folder}/queue",
            "/run/nbstream": f"{folder}/run",
            "/root/": f"{folder}/root/",
            "/home/": f"{folder}/home/",
            **paths,
        }
        self._restarts = {"nbstream": self.restart, **restarts}
        self._postfix = postfix
        self.daemon: DaemonProcess | None = None
        for part in ("root", "run", "home", "bin"):
            (folder / part).mkdir()
        command = folder / "bin/nbstream"
        command.write_text(_COMMAND.format(python=sys.executable))
        command.chmod(0o755)

    @property
    def text(self) -> str:
        """The page, with the paths of this machine."""
        text = page("guides/coming-from-another-filter.md")
        for old, new in self._paths.items():
            text = text.replace(old, new)
        return text

    def shown(self, heading: str, language: str) -> str:
        """The block of this language below the heading."""
        (block,) = fenced(section(self.text, heading), language)
        return block

    def follow(self, heading: str, only: str = "") -> str:
        """Run the commands below the heading, those blocks that contain ``only``; what they print."""
        blocks = [block for block in fenced(section(self.text, heading), "sh") if only in block]
        assert blocks, heading
        return "".join(map(self._run, blocks))

    def _run(self, block: str) -> str:
        functions = _SYSTEMCTL.format(folder=self.folder)
        if self._postfix is not None:
            program = self._postfix.program
            functions = (
                SHELL_FUNCTIONS.format(
                    postconf=program("postconf"), postfix=program("postfix"), etc=self.folder / "etc"
                )
                + functions
            )
        environment = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "HOME": f"{self.folder}/root",
        }
        done = subprocess.run(
            ["bash", "-euc", functions + block],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "postconf: warning" not in done.stderr, done.stderr
        if self._postfix is not None:
            self._postfix.cool()
            if re.search(r"^postfix reload$", block, re.MULTILINE):
                self._reload(self._postfix)
        asked = self.folder / "asked"
        words = asked.read_text().splitlines() if asked.exists() else []
        asked.unlink(missing_ok=True)
        for line in words:
            self._restarts[line.split()[-1]]()
        return done.stdout

    def _reload(self, postfix: Postfix) -> None:
        """Let Postfix read its files again, and wait until nobody serves by what they said before."""
        master = (self.folder / "queue/pid/master.pid").read_text().strip()
        former = Path(f"/proc/{master}/task/{master}/children").read_text().split()
        smtpd = [int(child) for child in former if _program(child) == "smtpd"]
        reloads = postfix.log.count(": reload -- ")
        postfix.run("postfix", "reload")
        wait_until(lambda: postfix.log.count(": reload -- ") > reloads and all(map(gone, smtpd)))

    def fill_mailboxes(self, count: int = 120) -> None:
        """Give ann a Junk folder and an archive with so many messages together."""
        stream = list(samples(3 * count, seed=33))
        chosen = [[raw for of, raw in stream if of == label][: count // 2] for label in ("spam", "ham")]
        for number, (name, raw) in enumerate(
            [*((".Junk", raw) for raw in chosen[0]), *((".Archive", raw) for raw in chosen[1])]
        ):
            folder = self.folder / "home/ann/Maildir" / name
            for part in ("cur", "new", "tmp", "../cur", "../new", "../tmp"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / f"cur/{number}.mx:2,S").write_bytes(raw)

    def file(self, message: str, folder: str) -> None:
        """Put a delivered message into a folder of ann."""
        (self.folder / "home/ann/Maildir" / folder / "cur/filed:2,S").write_text(message)

    def wait_until_remembered(self, message: str) -> None:
        """Return when a delivered message is remembered, also by a daemon that is killed then."""
        wait_until(lambda: not command("explain", "-c", self.folder / "nbstream.yaml", _id(message)).returncode)

    def restart(self) -> None:
        """Start nbstream on the configuration that the page has written, after the end of one that runs."""
        self.stop()
        self.daemon = DaemonProcess(self.folder / "nbstream.yaml").ready()
        socket = self.folder / "run/spamd.sock"
        if socket.exists():
            os.chown(socket, -1, _USER)  # the user is in the group of nbstream

    def stop(self) -> None:
        """End nbstream, if it runs."""
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon = None

    @contextmanager
    def stopping(self) -> Iterator[Machine]:
        """End nbstream at the end."""
        try:
            yield self
        finally:
            self.stop()


def _program(process: str) -> str:
    """The name of a program that runs; empty where it has just ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _id(message: str) -> str:
    found = re.search(r"\bid=([a-z2-7]{24})", message)
    assert found
    return found[1]
