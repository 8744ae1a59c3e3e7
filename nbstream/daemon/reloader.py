"""Reading the configuration again while mail goes on: all live sections of it are applied at once, or nothing is.

Rules: there is one reload at a time, and each reads the file after it was requested. A file with any error changes
nothing, and the log and the client that requested the reload get the errors. What cannot be applied while the
daemon runs is named, and waits for a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nbstream import config
from nbstream.config import Settings
from nbstream.errors import ConfigError
from nbstream.logs import event_fields

_log = logging.getLogger(__name__)

_READ_SECONDS = 10.0
_MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What a reload did. ``policy`` is the hash of the settings in force now, whether the file was applied or not.

    ``problems`` is empty where the file was applied: then ``changed`` are the keys whose values have changed, and
    ``waiting`` those that differ from the running ones and need a restart.
    """

    file: str | None
    policy: str
    problems: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


ApplySettings: TypeAlias = "Callable[[Settings], Awaitable[None]]"
"""Applies all of the settings, or raises and has applied nothing."""


class Reloader:
    """Holds the settings in force, and replaces them by those of the file that the daemon was started with.

    In a single process ``apply`` waits for nothing in between, so that no message meets a mixture of two sets of
    settings. Each reload is within a block of ``reloading``. ``count_reload`` gets whether the file was applied.
    """

    def __init__(
        self,
        settings: Settings,
        apply: ApplySettings,
        count_reload: Callable[[bool], None],
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.settings = settings
        self._file = settings.source.absolute() if settings.source else None
        self._apply = apply
        self._count_reload = count_reload
        self._reloading = reloading
        self._reload_requested = asyncio.Event()
        self._reload_lock = asyncio.Lock()
        # A thread of its own: where a file system hangs, the threads that parse messages stay free.
        self._read_executor = ThreadPoolExecutor(1, "configuration")

    @property
    def file(self) -> str | None:
        """The file that the settings are read from; None for the defaults."""
        return str(self._file or self.settings.source or "") or None

    def request(self) -> None:
        """Reload soon; one reload answers all requests that came before it began."""
        self._reload_requested.set()

    async def run(self) -> None:
        """Reload whenever it is requested, until cancelled."""
        try:
            while True:
                await self._reload_requested.wait()
                self._reload_requested.clear()
                await self.reload()
        finally:
            self._read_executor.shutdown(wait=False, cancel_futures=True)

    async def reload(self) -> ReloadResult:
        """Read the file now and apply it, after a reload that is under way, which may have read an older file."""
        async with self._reload_lock:
            with self._reloading():
                try:
                    result = await self._read_and(self._apply)
                except Exception as error:  # noqa: BLE001 - a fault here is no reason to stop taking mail
                    _log.error("reload failed: %s", error, exc_info=True)
                    result = self._refused(["a fault in nbstream; the log has it"])
                self._report(result)
                return result

    async def pending(self) -> ReloadResult:
        """Return what a reload would do now, and do nothing."""
        async with self._reload_lock:
            return await self._read_and(None)

    async def _read_and(self, apply: ApplySettings | None) -> ReloadResult:
        """Read the file, and apply it where ``apply`` is given; return what that changes."""
        before = self.settings
        try:
            file_settings = await self._read_settings()
            settings = config.merge_live_settings(before, file_settings)
            if apply:
                await apply(settings)
        except ConfigError as error:
            return self._refused(str(error).split("\n"))
        if apply:
            self.settings = settings
        changed = config.changed_keys(before, settings)
        waiting = config.keys_awaiting_restart(settings, file_settings)
        return ReloadResult(self.file, config.policy_hash(self.settings), (), changed, waiting)

    def _refused(self, problems: list[str]) -> ReloadResult:
        more = len(problems) - _MAX_PROBLEMS
        lines = (*problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else []))
        return ReloadResult(self.file, config.policy_hash(self.settings), lines)

    async def _read_settings(self) -> Settings:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(
                    self._read_executor, _load_settings, self._file
                )
        except TimeoutError:
            raise ConfigError(f"{self._file}: not read within {_READ_SECONDS:g} s") from None

    def _report(self, result: ReloadResult) -> None:
        self._count_reload(not result.problems)
        for problem in result.problems:
            _log.error("reload refused, nothing is changed: %s", problem)
        if result.problems:
            return
        fields = event_fields(file=result.file, policy=result.policy, changed=", ".join(result.changed) or None)
        _log.info("reloaded", extra=fields)
        if result.waiting:
            _log.warning("changed in the file, but in force only after a restart: %s", ", ".join(result.waiting))


def _load_settings(file: Path | None) -> Settings:
    """Return the settings of the file, or of one at the usual places where there was none at the start."""
    path = config.find_config_file(file)
    if path and path.exists() and not path.is_file():
        # A pipe can be read once, at the start; the second time its reader would wait for a writer for ever.
        raise ConfigError(f"{path}: must be a regular file to be read again")
    return config.load_settings(path.absolute() if path else None)
