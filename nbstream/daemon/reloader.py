"""Reading the configuration anew while mail goes on: all that is live in it is applied at once, or nothing is.

Rules: one reload at a time, each reads the file after it was asked for; a file with any error changes nothing, and
the log and the asker learn which; what cannot be applied while running is named, and waits for a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nbstream import config
from nbstream.config import Settings
from nbstream.errors import ConfigError
from nbstream.logs import event_fields

_log = logging.getLogger(__name__)

_READ_SECONDS = 10.0
_MAX_PROBLEMS = 20


class ReloadObserver(Protocol):
    """What reloads report; metrics are the reader."""

    def reloaded(self, applied: bool) -> None:
        """The file was applied, or refused."""


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What a reload did. ``policy`` is the hash of what is in force now, either way.

    ``problems`` is empty where the file was applied: then ``changed`` are the keys that hold anew, and ``waiting``
    those that differ from the running ones and need a restart.
    """

    file: str | None
    policy: str
    problems: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


class Reloader:
    """Holds the settings in force, and replaces them by those of the file that the daemon was started with.

    ``apply`` gets the new settings and takes them over as a whole, or raises and has taken over nothing. In one
    process it waits for nothing on the way, so that no message sees the house between two sets of settings.
    """

    def __init__(
        self, settings: Settings, apply: Callable[[Settings], Awaitable[None]], observer: ReloadObserver
    ) -> None:
        self.settings = settings
        self._file = settings.source.absolute() if settings.source else None
        self._apply = apply
        self._observer = observer
        self._reload_requested = asyncio.Event()
        self._reload_lock = asyncio.Lock()
        # Of its own: where a file system hangs, the threads that take messages apart are not used up.
        self._read_executor = ThreadPoolExecutor(1, "configuration")

    @property
    def file(self) -> str | None:
        """The file that the daemon goes by; None for the defaults."""
        return str(self._file or self.settings.source or "") or None

    def request(self) -> None:
        """Reload soon. However often it is asked for until the next reload begins, that one is enough."""
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
        """Read the file now and apply it; after a reload that is under way, since that may have read it before."""
        async with self._reload_lock:
            before = self.settings
            try:
                found = await self._read_settings()
                settings = config.merge_live_settings(before, found)
                await self._apply(settings)
            except ConfigError as error:
                return self._refuse_result(str(error).split("\n"))
            except Exception as error:  # noqa: BLE001 - a fault here is no reason to stop taking mail
                _log.error("reload failed: %s", error, exc_info=True)
                return self._refuse_result(["a fault in nbstream; the log has it"])
            self.settings = settings
            changed, waiting = config.changed_keys(before, settings), config.keys_awaiting_restart(settings, found)
            return self._apply_result(found, changed, waiting)

    async def _read_settings(self) -> Settings:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(
                    self._read_executor, _load_settings, self._file
                )
        except TimeoutError:
            raise ConfigError(f"{self._file}: not read within {_READ_SECONDS:g} s") from None

    def _apply_result(self, found: Settings, changed: tuple[str, ...], waiting: tuple[str, ...]) -> ReloadResult:
        self._observer.reloaded(applied=True)
        done = ReloadResult(self.file, config.policy_hash(self.settings), (), changed, waiting)
        _log.info(
            "reloaded", extra=event_fields(file=done.file, policy=done.policy, changed=", ".join(changed) or None)
        )
        if waiting:
            _log.warning("changed in the file, but in force only after a restart: %s", ", ".join(waiting))
        return done

    def _refuse_result(self, problems: list[str]) -> ReloadResult:
        self._observer.reloaded(applied=False)
        more = len(problems) - _MAX_PROBLEMS
        told = [*problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
        for problem in told:
            _log.error("reload refused, nothing is changed: %s", problem)
        return ReloadResult(self.file, config.policy_hash(self.settings), tuple(told))


def _load_settings(file: Path | None) -> Settings:
    """The file, or where there was none at the start whatever stands at the usual places now."""
    found = config.find_config_file(file)
    if found and found.exists() and not found.is_file():
        # A pipe could be read at the start, and once; another time its reader would wait for a writer for ever.
        raise ConfigError(f"{found}: must be a regular file to be read again")
    return config.load_settings(found.absolute() if found else None)
