"""The daemon and its configuration: whether the file can be used, and whether the daemon runs and goes by it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.doctor.examination import in_thread
from nbstream.engine.choice import ENVIRONMENT, choose_engine
from nbstream.findings import note, ok, problem, warning
from nbstream.server import control_socket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.doctor.examination import Site
    from nbstream.errors import ConfigError
    from nbstream.findings import Finding

INVALID = problem(
    "config.file",
    "The configuration cannot be used: {problem}.",
    "Correct it. A running daemon keeps its previous settings; nothing else was examined.",
)
VALID = ok("config.file", "The configuration {file} can be used.")
DANGEROUS = warning("config.file", "{warning}.", "Change that setting unless it is intended.")
OTHER_FILE = warning(
    "config.daemon",
    "The daemon uses {served}, but this examination uses {own}.",
    "Run nbstream doctor -c {served}.",
)
REFUSED_BY_DAEMON = problem(
    "config.daemon",
    "The daemon cannot read its configuration again: {problem}.",
    "Correct the file, or make it readable for the daemon's user; a restart would fail.",
)
NOT_RELOADED = warning("config.daemon", "Changed settings are not yet active: {keys}.", "Run nbstream reload.")
AWAITS_RESTART = warning("config.daemon", "Changed settings need a restart: {keys}.", "Restart the daemon.")
IN_FORCE = ok("config.daemon", "The daemon uses the configuration as it is in the file.")

NOT_RUNNING = problem(
    "daemon.running",
    "No daemon is running on the state folder {folder}.",
    "Start it, for example with systemctl start nbstream; its log says why it stopped.",
)
STATE_UNUSABLE = problem(
    "daemon.running",
    "Cannot tell whether a daemon is running: {error}.",
    "Run this as the daemon's user, or repair the state folder.",
)
NO_ANSWER = problem(
    "daemon.running",
    "The daemon (process {pid}) does not answer on its control socket.",
    "Run this as the daemon's user, or check the daemon's log; restart it if it hangs.",
)
RUNNING = ok("daemon.running", "The daemon is running (process {pid}) with {workers}.")
OTHER_VERSION = warning(
    "daemon.version",
    "The daemon is running version {running}, but {installed} is installed.",
    "Restart the daemon.",
)
VERSION = ok("daemon.version", "The daemon and this command are version {version}.")
OTHER_ENGINE = warning(
    "daemon.engine",
    "The daemon uses the engine {running}, but this command {chosen}.",
    f"Restart the daemon, or check whether its {ENVIRONMENT} differs.",
)
SLOW_ENGINE = note(
    "daemon.engine",
    "The engine is {engine}, the slower one.",
    "Build the native library (make run, or pip install with cargo on the path), unless it is fast enough.",
)
ENGINE = ok("daemon.engine", "The engine is {engine}.")

_ASK_SECONDS = 12.0  # the daemon itself gives up on its file after ten


def invalid_configuration(error: ConfigError) -> tuple[Finding, ...]:
    """Return a finding for each problem of a configuration that cannot be used."""
    return tuple(INVALID(problem=line) for line in str(error).split("\n"))


async def examine_configuration(site: Site) -> Sequence[Finding]:
    """Say what is dangerous in the settings, and what the daemon has not applied of its file."""
    settings = site.settings
    findings = [VALID(file=settings.source or "of the defaults")]
    findings += [DANGEROUS(warning=text.rstrip(".")) for text in settings.warnings]
    if site.daemon.answers:
        served, own = site.daemon.file, settings.source
        if served is not None and not _is_same_file(served, own):
            findings.append(OTHER_FILE(served=served, own=own or "the defaults"))
        else:
            answer = await in_thread(
                lambda: control_socket.ask_daemon(settings.state_dir, "pending", _ASK_SECONDS)
            )
            findings += _differences(answer)
    return findings


def _is_same_file(served: str, own: Path | None) -> bool:
    return own is not None and own.resolve() == Path(served).resolve()


def _differences(answer: dict[str, list[str]]) -> Iterator[Finding]:
    for line in answer["problems"]:
        yield REFUSED_BY_DAEMON(problem=line.rstrip("."))
    if answer["changed"]:
        yield NOT_RELOADED(keys=", ".join(answer["changed"]))
    if answer["waiting"]:
        yield AWAITS_RESTART(keys=", ".join(answer["waiting"]))
    if not (answer["problems"] or answer["changed"] or answer["waiting"]):
        yield IN_FORCE()


async def examine_daemon(site: Site) -> Sequence[Finding]:
    """Say whether the daemon runs, and with which program."""
    return list(_findings(site))


def _findings(site: Site) -> Iterator[Finding]:
    daemon = site.daemon
    if site.daemon_unknown:
        yield STATE_UNUSABLE(error=site.daemon_unknown)
    elif daemon.pid is None:
        yield NOT_RUNNING(folder=site.settings.state_dir)
    elif not daemon.answers:
        yield NO_ANSWER(pid=daemon.pid)
    else:
        count = len(daemon.workers)
        yield RUNNING(pid=daemon.pid, workers=f"{count} workers" if count > 1 else "a single process")
        running = str(daemon.version)
        same = running == __version__
        yield VERSION(version=running) if same else OTHER_VERSION(running=running, installed=__version__)
    engine = choose_engine()
    if daemon.engine not in {None, engine.name}:
        yield OTHER_ENGINE(running=daemon.engine, chosen=engine)
    yield ENGINE(engine=engine) if engine.native_library else SLOW_ENGINE(engine=engine)
