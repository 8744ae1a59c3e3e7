"""``nbstream reload``: have the running daemon read its configuration again, and print its answer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbstream.daemon import config
from nbstream.errors import ConfigError, NbstreamError, NotRunning
from nbstream.file_locks import daemon_pid
from nbstream.server import control_socket

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.terminal import Output

_ASK_SECONDS = 5.0
_RELOAD_SECONDS = 30.0  # the daemon itself gives up on its file after ten


def run(options: argparse.Namespace, output: Output) -> None:
    """Print the daemon's answer: 0 applied, 78 the file cannot be used, 69 no daemon runs, 75 no answer."""
    settings = config.load_settings(config.find_config_file(options.config))
    _check_same_file(settings, _ask_daemon(settings, "policy", _ASK_SECONDS)["file"])
    answer = _ask_daemon(settings, "reload", _RELOAD_SECONDS)
    if options.json:
        output.show([], answer)
    if answer["problems"]:
        raise ConfigError("\n".join(["the daemon refused its file, nothing is changed", *answer["problems"]]))
    if answer["file"] is None and settings.source is not None:
        raise ConfigError(
            "the daemon was started without a file and found none: "
            f"the defaults are in force, not {settings.source}. Start it with -c {settings.source}"
        )
    if not options.json:
        output.show(_describe(answer))


def _ask_daemon(settings: Settings, word: str, seconds: float) -> dict[str, Any]:
    """Return the daemon's own answer: nothing else proves that something was applied."""
    try:
        return control_socket.ask_daemon(settings.state_dir, word, seconds)
    except (OSError, ValueError) as error:
        pid = daemon_pid(settings.state_dir)
        if pid is None:
            raise NotRunning(f"no daemon runs on state_dir {settings.state_dir}") from error
        raise NbstreamError(
            f"the daemon (process {pid}) did not answer, its log says whether it reloaded: {error}"
        ) from error


def _check_same_file(settings: Settings, served: str | None) -> None:
    """Raise ``ConfigError`` where the daemon reads another file; a daemon without any file looks for one."""
    if served is None:
        return
    if settings.source is None or settings.source.resolve() != Path(served).resolve():
        own = settings.source or "the defaults"
        raise ConfigError(f"the daemon goes by {served}, not by {own}: nbstream reload -c {served}")


def _describe(answer: dict[str, Any]) -> list[str]:
    lines = [f"{answer['file'] or 'defaults'}: applied, policy {answer['policy']}"]
    lines.append(f"changed: {', '.join(answer['changed']) or 'nothing'}")
    if answer["waiting"]:
        lines.append(f"in force only after a restart: {', '.join(answer['waiting'])}")
    return lines
