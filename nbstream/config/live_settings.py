"""Which settings a reload applies, and which wait for a restart.

Rules: a section is live as a whole or not at all. Only ``POLICY_SECTIONS`` and ``LIVE_SECTIONS`` say which
sections are live. Every part that is built from a live section is built again when the daemon applies new
settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from nbstream.config.loading import describe_allowed
from nbstream.config.settings import Settings
from nbstream.settings.document import ConfigProblem, config_error

POLICY_SECTIONS = ("on_filter_failure", "verdict", "actions", "recipients", "lists", "headers", "feedback")
"""The live sections that decide what happens to mail: the policy hash is computed from these."""


LIVE_SECTIONS = (*POLICY_SECTIONS, "models", "log")
"""The sections that a reload applies."""


_HASH_DIGITS = 12


def merge_live_settings(running: Settings, new_settings: Settings) -> Settings:
    """Return the settings in force after a reload: ``running`` with the live sections of ``new_settings``.

    Raises ConfigError where the two do not fit together: each was checked only by itself.
    """
    values = {
        name: getattr(new_settings if name in LIVE_SECTIONS else running, name) for name in Settings.model_fields
    }
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
        return settings.with_source(new_settings.source) if new_settings.source else settings
    # Raised outside of the handler: else pydantic's error would be its context, and show the input.
    raise config_error(str(new_settings.source or "defaults"), problems)


def changed_keys(running: Settings, new_settings: Settings) -> tuple[str, ...]:
    """Return the dotted keys whose values differ."""
    return tuple(_differing_keys(running, new_settings, ""))


def keys_awaiting_restart(in_force: Settings, new_settings: Settings) -> tuple[str, ...]:
    """Return the dotted keys that ``new_settings`` changes and that only a restart applies."""
    return tuple(key for key in changed_keys(in_force, new_settings) if key.partition(".")[0] not in LIVE_SECTIONS)


def _differing_keys(one: BaseModel, other: BaseModel, prefix: str) -> Iterator[str]:
    for name in type(one).model_fields:
        before, after = getattr(one, name), getattr(other, name)
        if isinstance(before, BaseModel) and type(before) is type(after):
            yield from _differing_keys(before, after, f"{prefix}{name}.")
        elif before != after:
            yield prefix + name


def policy_hash(settings: Settings) -> str:
    """Return twelve hexadecimal digits that are the same for the same policy: SHA-256 of its canonical JSON.

    Defaults count like values from the file. Therefore two files that mean the same have the same hash.
    """
    values = settings.model_dump(mode="json", include=set(POLICY_SECTIONS))
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_HASH_DIGITS]
