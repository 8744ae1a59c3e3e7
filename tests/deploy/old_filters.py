"""Filters that a site may come from, as Debian brings them, with their files in a folder and without a network."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import chown

from tests.harness.daemon import DEADLINE_SECONDS, free_port, wait_until

GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
"""The body that SpamAssassin and rspamd call spam whatever else there is."""


class Running:
    """A server that is started again by the same words; it is up once it listens at a port of this machine."""

    def __init__(self, words: Sequence[str | Path], port: int, log: Path) -> None:
        self._words, self._port, self._log = words, port, log
        self._process: subprocess.Popen[bytes] | None = None

    def restart(self) -> None:
        """End it, if it runs, and start it."""
        self.stop()
        with self._log.open("ab") as log:
            # In a session of its own, to end its children too.
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log, start_new_session=True)
        wait_until(self._listens)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """End it and its children."""
        if self._process is not None:
            self._process.terminate()  # the workers of rspamd are no part of its group, and end with it
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(DEADLINE_SECONDS)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(DEADLINE_SECONDS)
            self._process = None


_ASK_OTHERS = (
    "arc", "asn", "bimi", "dkim", "dkim_signing", "dmarc", "fuzzy_check", "hfilter", "mx_check", "neural",
    "phishing", "ratelimit", "rbl", "reputation", "rspamd_update", "spf", "surbl", "url_redirector", "whitelist",
)  # fmt: skip
"""Modules of rspamd that ask the network."""


class Rspamd:
    """rspamd with its milter and a Redis; ``local`` is what its guides call ``/etc/rspamd/local.d``."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        # Both before the user is needed that the package makes.
        rspamd, redis_server = program("rspamd"), program("redis-server")
        self.folder = folder / "rspamd"
        self.local = self.folder / "local.d"
        self.milter, self.controller, normal = (free_port() for _ in range(3))
        for path in (self.local, *(self.folder / name for name in ("db", "run", "log"))):
            path.mkdir(parents=True, exist_ok=True)
            chown(path, "_rspamd", "_rspamd")
        redis = self.folder / "redis.sock"
        files = {
            **{f"{module}.conf": "enabled = false;\n" for module in _ASK_OTHERS},
            "greylist.conf": "enabled = false;\n",
            "options.inc": 'dns { nameserver = ["127.0.0.1"]; timeout = 0.1s; retransmits = 1; }\n'
            "disable_hyperscan = true;\n",
            "worker-normal.inc": f'bind_socket = "127.0.0.1:{normal}"; count = 1;\n',
            "worker-controller.inc": f'bind_socket = "127.0.0.1:{self.controller}";\n',
            "worker-proxy.inc": f'bind_socket = "127.0.0.1:{self.milter}";\n'
            f'upstream "local" {{ hosts = "127.0.0.1:{normal}"; }}\n',
            "redis.conf": f'servers = "{redis}";\n',
            "logging.inc": 'type = "console";\n',
        }
        for name, text in files.items():
            (self.local / name).write_text(text)
        self._variables = [
            f"--var={name}={path}"
            for name, path in (
                ("LOCAL_CONFDIR", self.folder),
                ("DBDIR", self.folder / "db"),
                ("RUNDIR", self.folder / "run"),
                ("LOGDIR", self.folder / "log"),
            )
        ]
        configuration = "/etc/rspamd/rspamd.conf"
        words = [rspamd, "-c", configuration, "-f", "-u", "_rspamd", "-g", "_rspamd", *self._variables]
        self.server = Running(words, self.milter, self.folder / "log/out")
        port = free_port()
        options = ["--bind", "127.0.0.1", "--unixsocket", redis, "--unixsocketperm", "777", "--dir", self.folder]
        self._redis = Running(
            [redis_server, "--port", str(port), "--save", "", *map(str, options)],
            port,
            self.folder / "log/redis",
        )
        self._program = program

    def start(self) -> None:
        """Start its Redis, and then itself."""
        self._redis.restart()
        self.server.restart()

    def stop(self) -> None:
        """End both."""
        self.server.stop()
        self._redis.stop()

    def client(self, *words: str | Path) -> str:
        """What ``rspamc`` prints that asks the controller."""
        command = [self._program("rspamc"), "-h", f"127.0.0.1:{self.controller}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def configuration(self, section: str) -> str:
        """What ``rspamadm configdump`` prints of a section."""
        command = [self._program("rspamadm"), *self._variables, "configdump", section]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


class Spampd:
    """spampd, which passes mail on to ``back``; ``local`` stands for ``/etc/spamassassin/local.cf``."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        spampd = program("spampd")  # before the user is needed that the package makes
        self.port, self.back = free_port(), free_port()
        home = folder / "spamassassin"
        home.mkdir()
        chown(home, "spampd", "spampd")
        self.local = home / "local.cf"
        self.local.write_text(f"bayes_path {home}/bayes\n")
        # As Debian's service runs it, but for its files, for the network, and for a log without a syslog.
        listen = [f"--port={self.port}", "--relayhost=127.0.0.1", f"--relayport={self.back}"]
        users = ["--user=spampd", "--group=spampd", f"--pid={home}/pid", f"--saconfig={self.local}"]
        words = ["--nodetach", "--tagall", "--local-only", "--children=1", "--logsock=inet", *listen, *users]
        self.server = Running([spampd, *words], self.port, folder / "spampd.log")


class Spamd:
    """spamd, for the clients at ``port``."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        self.port = free_port()
        options = [
            "--local",
            "--nouser-config",
            "--max-children=1",
            "--syslog=stderr",
            f"--pidfile={folder}/spamd.pid",
        ]
        words = [program("spamd"), *options, f"--helper-home-dir={folder}", f"--cf=bayes_path {folder}/bayes"]
        self.server = Running([*words, f"--listen=127.0.0.1:{self.port}"], self.port, folder / "spamd.log")
