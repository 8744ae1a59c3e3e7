"""A daemon of several workers, and what tests want to know of each."""

from __future__ import annotations

import json
import re
import smtplib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

from nbstream.listeners import control_socket
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, gone, wait_until

DOORS = "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}, metrics: {listen: '127.0.0.1:0'}"
MANY = 40  # fresh connections: that all of them come to the same one of two workers is a chance of 2 ** -39


class Site:
    """A configuration with two workers, and the daemon that goes by it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "nb.yaml"
        self.state = folder / "state"
        self.write()

    def write(self, text: str = "", *, doors: str = DOORS, workers: int = 2) -> None:
        """Replace the file as a whole."""
        new = self.file.with_suffix(".new")
        new.write_text(
            f"state_dir: {self.state}\nworkers: {workers}\nlisteners: {{{doors}}}\nlog: {{format: json}}\n{text}\n"
        )
        new.replace(self.file)

    @contextmanager
    def running(self) -> Iterator[DaemonProcess]:
        """The daemon, all of whose workers take mail; it leaves no process behind."""
        with DaemonProcess(self.file) as daemon:
            pids = self.pids()
            yield daemon
            pids += self.pids() if daemon.process.poll() is None else []
        wait_until(lambda: all(map(gone, pids)))

    def pids(self) -> list[int]:
        """The processes of the workers at work."""
        found: list[int] = control_socket.ask_daemon(self.state, "policy", DEADLINE_SECONDS)["workers"]
        return found

    def counted(self, worker: int, name: str) -> float:
        """What that worker alone has counted of ``name``, over all labels."""
        file = self.state / "metrics" / f"counter_{worker}.db"
        values = MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]
        return float(sum(value for key, value, _, _ in values if json.loads(key)[1] == name))

    def delivered(self) -> list[str]:
        """The subjects of the messages in the Maildir."""
        texts = [path.read_text() for path in (self.state / "Maildir" / "new").iterdir()]
        return [re.findall(r"^Subject: (.*)$", text, re.MULTILINE)[0] for text in texts]


def send(
    daemon: DaemonProcess, subject: str, recipient: str = "to@example.org", text: str = "How are you?"
) -> str:
    """Send one message over a connection of its own; the answer."""
    with connect(daemon) as client:
        client.mail("from@example.org")
        client.rcpt(recipient)
        code, told = client.data(f"Subject: {subject}\r\n\r\n{text}\r\n".encode())
        return f"{code} {told.decode()}"


def connect(daemon: DaemonProcess) -> smtplib.SMTP:
    """A connection for mail."""
    host, _, port = daemon.address("smtp").rpartition(":")
    client = smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS)
    client.ehlo("client")
    return client


def told(daemon: DaemonProcess, event: str) -> list[dict[str, object]]:
    """The events of that kind in the log, so far."""
    return [each for each in list(daemon.events) if each["event"] == event]


def replaced(daemon: DaemonProcess, times: int) -> None:
    """Wait until so many workers have taken the place of dead ones."""
    wait_until(lambda: len(told(daemon, "worker ready")) >= 2 + times)


def scraped(daemon: DaemonProcess, door: str = "metrics") -> list[str]:
    """The lines of /metrics."""
    url = f"http://{daemon.address(door)}/metrics"
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as response:
        return str(response.read().decode()).splitlines()


def total(daemon: DaemonProcess, name: str, door: str = "metrics") -> float:
    """The sum of a metric over its labels."""
    return sum(float(line.rpartition(" ")[2]) for line in scraped(daemon, door) if re.match(rf"{name}[{{ ]", line))


def model(daemon: DaemonProcess) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads(daemon.get("/v1/model")[1])
    return found
