"""What a running daemon takes from its file anew, and what waits for a restart.

Rules: a section is live as a whole or not at all, and ``POLICY_SECTIONS`` and ``LIVE_SECTIONS`` are the one place
that says which are. Every part that is built from a live section is built anew when the daemon applies new
settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from nbstream.config.loading import describe_allowed
from nbstream.config.problems import ConfigProblem, config_error
from nbstream.config.settings import Settings

POLICY_SECTIONS = ("on_filter_failure", "verdict", "actions", "recipients", "headers", "feedback")
"""The live sections that decide what becomes of mail: the hash of a policy is of these."""

LIVE_SECTIONS = (*POLICY_SECTIONS, "log")
"""The sections that a reload applies."""

_HASH_DIGITS = 12


def merge_live_settings(running: Settings, found: Settings) -> Settings:
    """The settings in force after a reload: ``running`` with the live sections of ``found``.

    ConfigError where the two do not fit together, since each was checked as a whole of its own.
    """
    values = {name: getattr(found if name in LIVE_SECTIONS else running, name) for name in Settings.model_fields}
    try:
        settings = type(running).model_validate(values)
    except ValidationError as error:
        problems = [
            ConfigProblem(
                details["loc"],
                None,
                f"{describe_allowed(details)}, with the settings that wait for a restart as they run",
            )
            for details in error.errors(include_url=False)
        ]
    else:
        return settings.with_source(found.source) if found.source else settings
    # Raised outside of the handler: as its context, pydantic's error would carry the input along.
    raise config_error(str(found.source or "defaults"), problems)


def changed_keys(running: Settings, found: Settings) -> tuple[str, ...]:
    """The keys, dotted, whose values differ."""
    return tuple(_differing_keys(running, found, ""))


def keys_awaiting_restart(in_force: Settings, found: Settings) -> tuple[str, ...]:
    """The keys, dotted, that ``found`` would change and that only a restart applies."""
    return tuple(key for key in changed_keys(in_force, found) if key.partition(".")[0] not in LIVE_SECTIONS)


def _differing_keys(one: BaseModel, other: BaseModel, prefix: str) -> Iterator[str]:
    for name in type(one).model_fields:
        before, after = getattr(one, name), getattr(other, name)
        if isinstance(before, BaseModel) and type(before) is type(after):
            yield from _differing_keys(before, after, f"{prefix}{name}.")
        elif before != after:
            yield prefix + name


def policy_hash(settings: Settings) -> str:
    """Twelve hexadecimal digits that are the same for the same policy: of SHA-256, over its canonical JSON.

    Defaults count like values from the file, so that two files that mean the same have the same hash.
    """
    values = settings.model_dump(mode="json", include=set(POLICY_SECTIONS))
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_HASH_DIGITS]
