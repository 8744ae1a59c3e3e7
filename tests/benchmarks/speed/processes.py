"""Programs that are measured from outside: they have a log file, and the kernel says what they used."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[3]
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_READY_SECONDS = 120.0
_END_SECONDS = 30.0


class CannotMeasure(Exception):
    """Something to be measured is missing or did not work; it becomes a visible skip."""


def program(name: str, package: str) -> str:
    """Return the path of a program; raise ``CannotMeasure`` with the name of its Debian package."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    if path is None:
        raise CannotMeasure(f"no {name}: apt install {package}")
    return path


def output(*words: str | Path, seconds: float = 20.0) -> str:
    """Return the output of a command, its errors included."""
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False
    )
    return done.stdout


def run_quietly(*words: str | Path, input_file: Path | None = None, seconds: float = 300.0) -> str:
    """Return the output of a command, its errors included; raise ``CannotMeasure`` where it fails."""
    with (input_file or Path(os.devnull)).open("rb") as file:
        done = subprocess.run(
            words,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    if done.returncode:
        raise CannotMeasure(f"{words[0]}: {done.returncode} {done.stdout.strip()[-200:]}")
    return done.stdout


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Measured(Protocol):
    """Something whose CPU time is measured."""

    @property
    def cpu_seconds(self) -> float:
        """User and system time until now."""

    @property
    def redis_cpu_seconds(self) -> float:
        """What of it is that of a Redis."""


class Children:
    """The processes that this one has started, and that have ended."""

    redis_cpu_seconds = 0.0

    @property
    def cpu_seconds(self) -> float:
        """User and system time until now."""
        return children_cpu_seconds()


class Served:
    """A running program and all that it started."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def wait_for(self, ready: Callable[[], bool], seconds: float = _READY_SECONDS) -> None:
        """Return once ``ready()``; raises ``CannotMeasure`` with the end of the log where that does not come."""
        until = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None or time.monotonic() > until:
                log_end = self.log.read_text(errors="replace")[-400:]
                raise CannotMeasure(f"{self.process.args!r} did not get ready: {log_end}")
            time.sleep(0.01)  # another process has no event to wait on

    @property
    def cpu_seconds(self) -> float:
        """User and system time until now, of it and of its descendants, those that have ended too."""
        return sum(cpu_seconds(pid, ended=True) for pid in family(self.process.pid))

    @property
    def redis_cpu_seconds(self) -> float:
        """What of ``cpu_seconds`` is that of its Redis."""
        pids = [pid for pid in family(self.process.pid) if "redis" in _name(pid)]
        return sum(cpu_seconds(pid) for pid in pids)

    @property
    def resident_bytes(self) -> int:
        """The memory of the process itself."""
        return resident_bytes(self.process.pid)


@contextmanager
def served(words: Sequence[str | Path], log: Path, folder: Path) -> Iterator[Served]:
    """Run a server, its output in a file; at the end it gets SIGTERM, and SIGKILL where that does not do."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        yield Served(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def children_cpu_seconds() -> float:
    """User and system time of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def client_cpu_seconds() -> float:
    """User and system time of this process, which is a client or has started one that has ended."""
    return time.process_time() + children_cpu_seconds()


def listens(port: int) -> bool:
    """Whether something accepts connections on that port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False


def family(pid: int) -> list[int]:
    """The process and its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    family_pids = [pid]
    for member in family_pids:
        family_pids.extend(children.get(member, []))
    return family_pids


def cpu_seconds(pid: int, *, ended: bool = False) -> float:
    """User and system time of one process until now, also of its ``ended`` children; 0 where it is gone."""
    fields = _stat(pid)
    return sum(map(int, fields[11 : 15 if ended else 13])) / _TICKS


def resident_bytes(pid: int) -> int:
    """The memory of one process that is in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def private_bytes(pid: int) -> int:
    """The memory of one process that no other process uses: what would be free without it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def age_seconds(pid: int) -> float:
    """The seconds since a process was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(_stat(pid)[19]) / _TICKS


def _name(pid: int) -> str:
    """The name of the program; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the program's name; none where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
