"""A daemon of several workers, and what tests read of each of them."""

from __future__ import annotations

import json
import re
import smtplib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

from nbstream.server import control_socket
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, gone, wait_until

LISTENERS = "smtp: {listen: '127.0.0.1:0'}, http: {listen: '127.0.0.1:0'}, metrics: {listen: '127.0.0.1:0'}"
MANY = 40  # connections: the probability that one of two workers gets all of them is 2 ** -39


class Site:
    """A configuration with two workers, and the daemon that runs with it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "nb.yaml"
        self.state = folder / "state"
        self.write()

    def write(self, text: str = "", *, listeners: str = LISTENERS, workers: int = 2) -> None:
        """Replace the file as a whole."""
        new_file = self.file.with_suffix(".new")
        new_file.write_text(
            f"state_dir: {self.state}\nworkers: {workers}\nlisteners: {{{listeners}}}\n"
            f"log: {{format: json}}\n{text}\n"
        )
        new_file.replace(self.file)

    @contextmanager
    def running(self) -> Iterator[DaemonProcess]:
        """Run the daemon until all of its workers take mail; at the end no process of it is left."""
        with DaemonProcess(self.file) as daemon:
            pids = self.pids()
            yield daemon
            pids += self.pids() if daemon.process.poll() is None else []
        wait_until(lambda: all(map(gone, pids)))

    def states(self) -> list[tuple[int, str]]:
        """Return the process id and the state of each worker that runs."""
        workers = control_socket.ask_daemon(self.state, "policy", DEADLINE_SECONDS)["workers"]
        return [(worker["pid"], worker["state"]) for worker in workers]

    def pids(self) -> list[int]:
        """Return the process ids of the running workers."""
        return [pid for pid, _ in self.states()]

    def counted(self, worker: int, name: str) -> float:
        """Return what this worker alone has counted for the metric ``name``, over all labels."""
        file = self.state / "metrics" / f"counter_{worker}.db"
        values = MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]
        return float(sum(value for key, value, _, _ in values if json.loads(key)[1] == name))

    def delivered(self) -> list[str]:
        """Return the subjects of the messages in the Maildir."""
        texts = [path.read_text() for path in (self.state / "Maildir" / "new").iterdir()]
        return [re.findall(r"^Subject: (.*)$", text, re.MULTILINE)[0] for text in texts]


def send(
    daemon: DaemonProcess, subject: str, recipient: str = "to@example.org", text: str = "How are you?"
) -> str:
    """Send one message over a connection of its own, and return the reply."""
    with connect(daemon) as client:
        client.mail("from@example.org")
        client.rcpt(recipient)
        code, reply_text = client.data(f"Subject: {subject}\r\n\r\n{text}\r\n".encode())
        return f"{code} {reply_text.decode()}"


def connect(daemon: DaemonProcess) -> smtplib.SMTP:
    """Open an SMTP connection."""
    host, _, port = daemon.address("smtp").rpartition(":")
    client = smtplib.SMTP(host, int(port), timeout=DEADLINE_SECONDS)
    client.ehlo("client")
    return client


def logged_events(daemon: DaemonProcess, event: str) -> list[dict[str, object]]:
    """Return the events of this kind that are in the log so far."""
    return [entry for entry in list(daemon.events) if entry["event"] == event]


def replaced(daemon: DaemonProcess, times: int) -> None:
    """Wait until this many workers have replaced dead ones."""
    wait_until(lambda: len(logged_events(daemon, "worker ready")) >= 2 + times)


def scraped(daemon: DaemonProcess, listener: str = "metrics") -> list[str]:
    """Return the lines of /metrics."""
    url = f"http://{daemon.address(listener)}/metrics"
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as response:
        return str(response.read().decode()).splitlines()


def total(daemon: DaemonProcess, name: str, listener: str = "metrics") -> float:
    """Return the sum of a metric over its labels."""
    return sum(
        float(line.rpartition(" ")[2]) for line in scraped(daemon, listener) if re.match(rf"{name}[{{ ]", line)
    )


def model(daemon: DaemonProcess) -> dict[str, dict[str, float]]:
    state: dict[str, dict[str, float]] = json.loads(daemon.get("/v1/model")[1])
    return state
