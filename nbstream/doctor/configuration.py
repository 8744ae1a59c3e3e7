"""The configuration: whether it can be used, and whether the daemon goes by it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.doctor.examination import in_thread
from nbstream.findings import ok, problem, warning
from nbstream.server import control_socket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.doctor.site import Site
    from nbstream.errors import ConfigError
    from nbstream.findings import Finding

INVALID = problem(
    "config.file",
    "The configuration cannot be used: {problem}.",
    "Correct it; a daemon that runs keeps the settings that it has read before, and nothing else was examined.",
)
VALID = ok("config.file", "The configuration {file} can be used.")
DANGEROUS = warning("config.file", "{warning}.", "Change that setting, unless it is meant.")
OTHER_FILE = warning(
    "config.daemon",
    "The daemon goes by {served}, and this examination by {own}.",
    "Run nbstream doctor -c {served}.",
)
REFUSED_BY_DAEMON = problem(
    "config.daemon",
    "The daemon cannot read its configuration again: {problem}.",
    "Correct the file, or let the daemon's user read it; a restart would fail.",
)
NOT_RELOADED = warning(
    "config.daemon", "Settings were changed and are not in force: {keys}.", "Run nbstream reload."
)
AWAITS_RESTART = warning(
    "config.daemon", "Settings were changed that only a restart applies: {keys}.", "Restart the daemon."
)
IN_FORCE = ok("config.daemon", "The daemon goes by the configuration as it is in the file.")

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
