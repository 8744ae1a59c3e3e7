"""Reading the configuration again while mail goes on: all live sections of it are applied at once, or nothing is.

Rules: there is one reload at a time, and each reads the file after it was requested. A file with any error changes
nothing, and the log and the client that requested the reload get the errors. What cannot be applied while the
daemon runs is named, and waits for a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nbstream.daemon import config
from nbstream.daemon.config import Settings
from nbstream.errors import ConfigError
from nbstream.logs import event_fields

if TYPE_CHECKING:
    from nbstream.daemon.metrics import ProcessMetrics

_log = logging.getLogger(__name__)

READ_SECONDS = 10.0
_MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What a reload did. ``policy`` is the hash of the settings in force now, whether the file was applied or not.

    ``problems`` is empty where the file was applied: then ``changed`` are the keys whose values have changed, with
    ``own_models.alias_file`` where its aliases have, and ``waiting`` those that differ from the running ones and
    need a restart.
    """

    file: str | None
    policy: str
    problems: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


ApplySettings: TypeAlias = "Callable[[Settings], Awaitable[None]]"
"""Applies all of the settings, or raises and has applied nothing."""


class Reloader:
    """Holds the settings in force, and replaces them by those of the file that the daemon was started with."""

    def __init__(self, settings: Settings, apply: ApplySettings, metrics: ProcessMetrics) -> None:
        self.settings = settings
        self._aliases_hash = _hash_of_aliases(settings)
        self._file = settings.source.absolute() if settings.source else None
        self._apply = apply
        self._metrics = metrics
        self._lock = asyncio.Lock()
        metrics.set_policy(config.policy_hash(settings))
        # A thread of its own: where a file system hangs, the threads that parse messages stay free.
        self._read_executor = ThreadPoolExecutor(1, "configuration")

    @property
    def file(self) -> str | None:
        """The file that the settings are read from; None for the defaults."""
        return str(self._file or self.settings.source or "") or None

    async def reload(self) -> ReloadResult:
        """Read the file now and apply it, after a reload that is under way, which may have read an older file."""
        async with self._lock:
            result = await self._compare(self._apply)
        self._report(result)
        return result

    async def pending(self) -> ReloadResult:
        """Return what a reload would do now, and do nothing."""
        async with self._lock:
            return await self._compare(None)

    async def _compare(self, apply: ApplySettings | None) -> ReloadResult:
        """Return what the settings of the file change; apply them where ``apply`` is given."""
        before = self.settings
        try:
            file_settings, aliases_hash = await self._read()
            settings = config.merge_live_settings(before, file_settings)
            if apply:
                await apply(settings)
                self.settings = settings
        except ConfigError as error:
            return self.refused(str(error).split("\n"))
        except Exception as error:  # noqa: BLE001 - a fault here is no reason to stop taking mail
            _log.error("reload failed: %s", error, exc_info=True)
            return self.refused(["an internal error; see the log"])
        changed = config.changed_keys(before, settings)
        if aliases_hash != self._aliases_hash:
            changed = (*changed, "own_models.alias_file")
        if apply:
            self._aliases_hash = aliases_hash
        waiting = config.keys_awaiting_restart(settings, file_settings)
        return ReloadResult(self.file, config.policy_hash(self.settings), (), changed, waiting)

    async def _read(self) -> tuple[Settings, int]:
        """Return the settings of the file, and the hash of the aliases in the file that is in force."""

        def read() -> tuple[Settings, int]:
            return _load_settings(self._file), _hash_of_aliases(self.settings)

        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await loop.run_in_executor(self._read_executor, read)
        except TimeoutError:
            raise ConfigError(f"{self._file}: not read within {READ_SECONDS:g} s") from None

    def refused(self, problems: Sequence[str]) -> ReloadResult:
        """Return the result of a request that was refused for these problems."""
        more = len(problems) - _MAX_PROBLEMS
        lines = (*problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else []))
        return ReloadResult(self.file, config.policy_hash(self.settings), lines)

    def _report(self, result: ReloadResult) -> None:
        self._metrics.reloaded(not result.problems)
        for problem in result.problems:
            _log.error("reload refused, nothing was changed: %s", problem)
        if result.problems:
            return
        self._metrics.set_policy(result.policy)
        fields = event_fields(file=result.file, policy=result.policy, changed=", ".join(result.changed) or None)
        _log.info("reloaded", extra=fields)
        if result.waiting:
            _log.warning("changed in the file, effective only after a restart: %s", ", ".join(result.waiting))


def _hash_of_aliases(settings: Settings) -> int:
    return hash(frozenset(settings.own_models.read_aliases().items()))


def _load_settings(file: Path | None) -> Settings:
    """Return the settings of the file, or of one at the usual places where there was none at the start."""
    path = config.find_config_file(file)
    if path and path.exists() and not path.is_file():
        # A pipe can be read once, at the start; the second time its reader would wait for a writer for ever.
        raise ConfigError(f"{path}: must be a regular file to be read again")
    return config.load_settings(path.absolute() if path else None)
