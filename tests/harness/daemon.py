"""A daemon as users run it: a process, its log, its doors."""

from __future__ import annotations

import json
import random
import signal
import smtplib
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.harness import waiting
from tests.harness.forked import ForkedDaemon, run_forked

DEADLINE_SECONDS = waiting.DEADLINE_SECONDS
COMMAND_SECONDS = 120.0
_LISTENERS = {"http", "smtp"}  # one of them is named by the event with which a daemon is ready


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free at ``host`` a moment ago, for what must know it beforehand or comes back at it.

    It lies below those that Linux gives to whoever asks for any, from 32768 on: one of these may go to a
    connection of another test before the server that it is meant for has opened it.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((host, port))
            return port
    raise AssertionError("none of 100 ports is free")


def write_config(folder: Path, **settings: str) -> Path:
    """A configuration with ports that stay the same over restarts."""
    chosen = {
        "state_dir": str(folder / "state"),
        "listeners": f"{{smtp: {{listen: 127.0.0.1:{free_port()}}}, http: {{listen: 127.0.0.1:{free_port()}}}}}",
        "log": "{format: json}",
        "model": "{min_learned: 10}",
        **settings,
    }
    path = folder / "nb.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in chosen.items()))
    return path


class DaemonProcess:
    """``nbstream serve`` on a configuration, run by ``words`` such as nohup; ``ready`` waits for its doors."""

    def __init__(self, config: Path, *words: str) -> None:
        self.config = config
        self.events: list[dict[str, Any]] = []
        serve = ["serve", "-c", str(config)]
        self.process: Any = (
            subprocess.Popen(
                [*words, sys.executable, "-m", "nbstream.cli", *serve],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
            if words
            else ForkedDaemon(serve)
        )
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.events.append(json.loads(line) if line.startswith(b"{") else {"event": line.decode()})
            if _LISTENERS & self.events[-1].keys():
                self._ready.set()
        self._ready.set()  # it has ended

    def __enter__(self) -> Self:
        return self.ready()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ready(self) -> Self:
        self._ready.wait(DEADLINE_SECONDS)
        if not any(_LISTENERS & event.keys() for event in self.events):
            self.kill()  # nobody else knows of it yet
            raise AssertionError(f"the daemon did not get ready: {self.events}")
        return self

    def address(self, door: str) -> str:
        return str(next(event for event in self.events if door in event)[door])

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self.address('http')}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, series: str) -> float:
        """The value of one series, written as on ``/metrics``; 0 where it is not there."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        code: int = self.process.wait(DEADLINE_SECONDS)
        self._reader.join(DEADLINE_SECONDS)
        return code

    def kill(self) -> None:
        """kill -9, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def command(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run one nbstream command to its end; with other options than ``input`` by an interpreter of its own."""
    if not options.keys() - {"input"}:
        return run_forked([*map(str, arguments)], options.get("input", ""), COMMAND_SECONDS)
    words = [sys.executable, "-m", "nbstream.cli", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, **options)


def send(
    daemon: DaemonProcess, mail: list[tuple[str, bytes]], peer: str = "127.0.0.1", *, with_verdict: bool = False
) -> list[str]:
    """Send messages over one connection from a peer's address, each to a recipient; the texts of the 250s.

    ``with_verdict`` asks for the verdicts in them.
    """
    host, _, port = daemon.address("smtp").partition(":")
    replies = []
    with smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS, source_address=(peer, 0)) as client:
        for recipient, raw in mail:
            client.ehlo_or_helo_if_needed()
            client.mail("from@example.org", ["XVERDICT"] if with_verdict else [])
            client.rcpt(recipient)
            code, text = client.data(raw.replace(b"\n", b"\r\n"))
            assert code == 250, text
            replies.append(text.decode())
    return replies


def gone(pid: int) -> bool:
    """True when no such process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return True


def wait_until(condition: Any, seconds: float = DEADLINE_SECONDS) -> None:
    """Return once ``condition()`` holds; fails the test when it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.01)  # another process has no event to wait on
