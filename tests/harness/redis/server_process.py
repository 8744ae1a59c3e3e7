"""One server of a set: a process with a configuration file, which a test kills, stops and starts."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tests.harness.daemon import wait_until
from tests.harness.redis.access import Access

_REPLY_SECONDS = 1.0


class ServerProcess:
    """A Redis server, or a sentinel, at an address of its own."""

    def __init__(
        self, program: Path, folder: Path, host: str, port: int, access: Access, *, sentinel: bool = False
    ) -> None:
        self.host, self.port, self.access = host, port, access
        self.folder = folder
        self._program, self._sentinel = program, sentinel
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._client: Redis | None = None

    def __repr__(self) -> str:
        return f"<{'sentinel' if self._sentinel else 'server'} {self.address}>"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def configuration(self) -> Path:
        """The file that the server reads at its start, and rewrites."""
        return self.folder / "redis.conf"

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        return (self.folder / "log").read_text()

    def configure(self, lines: Sequence[str]) -> None:
        """Write the configuration file: its own folder and address, and ``lines``."""
        own = [
            f"dir {self.folder}",
            f"bind {self.host}",
            f"bind-source-addr {self.host}",
            "protected-mode no",
            "daemonize no",
        ]
        self.write_configuration("\n".join([*own, *self.access.server_lines(self.port), *lines]) + "\n")

    def write_configuration(self, text: str) -> None:
        """Write the configuration file, all of it."""
        self.folder.mkdir(parents=True)
        self.configuration.write_text(text)

    def start(self) -> None:
        """Start it and wait until it answers."""
        assert self._process is None, f"{self} runs already"
        words = [str(self._program), str(self.configuration), *(["--sentinel"] if self._sentinel else [])]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self._answers)
        if self._sentinel:
            # It looks at the others more often, so that tests are short. A replica whose last INFO is older than
            # five ping periods is not promoted, and INFO comes once a second: the ping period stays above 200.
            periods = {"info-period": 100, "publish-period": 100, "ask-period": 100, "ping-period": 500}
            self.ask("SENTINEL", "DEBUG", *(word for period in periods.items() for word in period))

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"{self} ended at its start:\n{self.log}"
        try:
            return bool(self.ask("PING"))
        except (RedisError, OSError):  # not open yet, or it loads its file
            return False

    @property
    def runs(self) -> bool:
        """Whether it has been started, and neither killed nor stopped since."""
        return self._process is not None and not self._stopped

    def ask(self, *words: str | int | bytes) -> object:
        """Send one command past any ``Network``, and return the reply as redis-py does."""
        client = self._client
        if client is None:
            client = self._client = Redis(
                host=self.host,
                port=self.port,
                socket_timeout=_REPLY_SECONDS,
                socket_connect_timeout=_REPLY_SECONDS,
                retry=Retry(NoBackoff(), 0),
                **self.access.client_options(),  # type: ignore[arg-type]  # names and values as its documentation
            )
        return client.execute_command(*words)  # type: ignore[no-untyped-call]  # redis-py has no type here

    def info(self, section: str) -> dict[str, str | int]:
        """Return a section of INFO; nothing where the server does not answer."""
        try:
            reply = self.ask("INFO", section)
        except (RedisError, OSError):
            return {}
        assert isinstance(reply, dict)
        return reply

    def kill(self) -> None:
        """End it by SIGKILL, as a machine that loses power; nothing where it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process, self._stopped = None, False
        self._forget_client()

    def terminate(self) -> None:
        """End it by SIGTERM, as an administrator does."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)
        self._process = None
        self._forget_client()

    def restart(self) -> None:
        """Kill it where it runs, and start it."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Stop the process (SIGSTOP): its connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self._stopped = True
        self._forget_client()

    def resume(self) -> None:
        """Let a stopped process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._stopped = False

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
