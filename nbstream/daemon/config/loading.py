"""Find the configuration file, read it, report what is wrong with it, and say what of it a reload applies.

Rules: a file that exists is used or refused; it is never skipped for the next one. All problems are reported at
once. The texts of pydantic are replaced by our own, because its texts would show the input. A section is live as a
whole or not at all: only ``POLICY_SECTIONS`` and ``LIVE_SECTIONS`` say which sections are live. Every part that is
built from a live section is built again when the daemon applies new settings.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nbstream.daemon.config.settings import Settings
from nbstream.settings.document import (
    ConfigProblem,
    Document,
    KeyPath,
    config_error,
    describe_kind,
    format_value,
)
from nbstream.settings.values import Section, read_path

FILE_NAME = "nbstream.yaml"
SYSTEM_FOLDER = Path("/etc/nbstream")

_PATH_STARTS = ("/", "~/", "./", "../")
_SCHEME = re.compile(r"[a-z+]{1,10}://")
_ALLOWED_TEXTS = {
    "int_type": "must be a whole number, without quotes",
    "float_type": "must be a number such as 5 or 0.5, without quotes",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "tuple_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "value_error": "{error}",
}


def find_config_file(explicit: Path | None) -> Path | None:
    """Return the file to load: the explicit one, else the first of the usual files that exists.

    Returns None where none exists; then the defaults hold. The usual files are ``./nbstream.yaml``, then
    ``nbstream/nbstream.yaml`` in the user's configuration folder, then ``/etc/nbstream/nbstream.yaml``.
    """
    if explicit is not None:
        return explicit
    usual = [Path(FILE_NAME), *_user_files(), SYSTEM_FOLDER / FILE_NAME]
    return next((file for file in usual if _exists(file)), None)


def _user_files() -> list[Path]:
    # A relative XDG_CONFIG_HOME is to be ignored (XDG Base Directory Specification 0.8).
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        base = folder if folder.is_absolute() else Path.home() / ".config"
    except RuntimeError:  # no HOME, and no entry for this user
        return []
    return [base / "nbstream" / FILE_NAME]


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a folder above must not be searched, as for a service that is started with root's HOME
        return False


def load_settings(path: Path | None) -> Settings:
    """Return the settings of a file, or the defaults for None. Raises ConfigError, which lists all problems."""
    if path is None:
        return _validated(Document(), "defaults")
    from nbstream.settings.yaml_file import read_document  # noqa: PLC0415 - without a file there is no YAML

    return _validated(read_document(path), str(path)).with_source(path)


def default_settings() -> Settings:
    """Return the defaults without validating them, which would build the validator of every section."""
    return Settings.model_construct(state_dir=read_path(Settings.model_fields["state_dir"].default))


def make_settings(values: Mapping[str, object]) -> Settings:
    """Return the settings of a mapping in the form of the file. Raises ConfigError, which lists all problems."""
    return _validated(Document(dict(values)), "settings")


def _validated(document: Document, name: str) -> Settings:
    try:
        return Settings.model_validate(document.data)
    except ValidationError as error:
        problems = [_config_problem(document, details) for details in error.errors(include_url=False)]
    # Raised outside of the handler: else pydantic's error would be its context, and show the input.
    raise config_error(name, problems)


def _config_problem(document: Document, details: ErrorDetails) -> ConfigProblem:
    key = details["loc"]
    if details["type"] == "extra_forbidden":
        text = _unknown_key(key)
    elif details["type"] == "missing":
        text = "not given, must be given"
    else:
        inherited = " (inherited)" if key[0] == "recipients" else " (the default)"
        default = "" if key in document.lines else inherited
        text = f"found {_describe_given_value(details)}{default}, {describe_allowed(details)}"
    return ConfigProblem(key, document.line_of(key), text)


def _describe_given_value(details: ErrorDetails) -> str:
    value = details["input"]
    name = str(details["loc"][-1])
    if name == "url" or name.endswith(("password_file", "user_file")):
        return _describe_value_near_secret(value, is_path=name != "url")
    # A value where a section belongs may well be a URL or a password.
    return describe_kind(value) if details["type"] in {"model_type", "tuple_type"} else format_value(value)


def _describe_value_near_secret(value: object, is_path: bool) -> str:
    """Describe a URL or the path of a password file without a password that was put there by mistake."""
    if not isinstance(value, str):
        return describe_kind(value)
    if is_path:
        return format_value(value) if value.startswith(_PATH_STARTS) else "text that is no absolute path"
    scheme = _SCHEME.match(value)
    return f"a URL with {scheme[0]}" if scheme else "text that is no URL"


def describe_allowed(details: ErrorDetails) -> str:
    """Return what is allowed instead, in our own words."""
    if details["type"] == "model_type":
        return f"must be a mapping with keys among {', '.join(_keys_below(details['loc']))}"
    return _ALLOWED_TEXTS.get(details["type"], "must be another value").format(**details.get("ctx", {}))


def _unknown_key(key: KeyPath) -> str:
    allowed_keys = _keys_below(key[:-1])
    similar_keys = get_close_matches(str(key[-1]), allowed_keys, n=1)
    hint = f"did you mean {similar_keys[0]}? " if similar_keys else ""
    return f"found an unknown key, {hint}must be one of {', '.join(allowed_keys)}"


def _keys_below(key: KeyPath) -> list[str]:
    """Return the keys that the section at this key allows."""
    section: type[Section] = Settings
    for name in key:
        if isinstance(name, int):
            continue  # a position in a list, whose items are of the section of the key before
        annotation = section.model_fields[name].annotation
        types = [option for option in (annotation, *get_args(annotation)) if isinstance(option, type)]
        section = next(option for option in types if issubclass(option, Section))
    return list(section.model_fields)


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
