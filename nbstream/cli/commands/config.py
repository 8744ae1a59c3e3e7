"""``nbstream config``: say what is wrong with a file, or what holds, key by key, and where each value comes from.

Rules: what is shown is YAML that gives the same settings again, except that a password in a URL is hidden. A value
of the file is shown as the file has it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import yaml
from pydantic import SecretStr

from nbstream.daemon import config
from nbstream.delivery.settings import MaildirNextHopSetting
from nbstream.policy.address_patterns import first_matching_pattern
from nbstream.settings.document import Document
from nbstream.settings.values import Section
from nbstream.settings.yaml_file import read_document
from nbstream.store.settings import url_with_hidden_password
from nbstream.terminal import print_note

if TYPE_CHECKING:
    from nbstream.daemon.config.settings import Settings
    from nbstream.settings.document import KeyPath
    from nbstream.terminal import Output


def run(options: argparse.Namespace, output: Output) -> None:
    """Do what ``ACTION`` says; a file that cannot be used is a ``ConfigError`` (exit code 78)."""
    output.show(_show(options) if options.action == "show" else _check(options))


def _check(options: argparse.Namespace) -> list[str]:
    """Return the file's name and ``ok``."""
    if options.file and options.config:
        options.wrong_usage("one FILE is checked: give it with or without -c")
    path = config.find_config_file(options.file or options.config)
    settings = config.load_settings(path)
    settings.own_models.read_aliases()
    for warning in settings.warnings:
        print_note(f"warning: {warning}")
    return [f"{path or 'defaults'}: ok"]


def _show(options: argparse.Namespace) -> list[str]:
    """Return the lines of every key with its value, or what holds for one recipient."""
    if options.defaults:
        return show_defaults(config.make_settings({}))
    path = config.find_config_file(options.config)
    settings = config.load_settings(path)
    print_note(f"configuration: {path or 'the defaults'}")
    if options.recipient:
        return show_for_recipient(settings, options.recipient)
    return show_settings(settings, read_document(path) if path else Document())


def show_settings(settings: Settings, document: Document) -> list[str]:
    """Return the lines of the settings; behind each value stands its line in ``document``, or ``default``."""
    return list(_section_lines(settings, document.data, (), document))


def show_defaults(defaults: Settings) -> list[str]:
    """Return the lines of every key at its default."""
    return list(_section_lines(defaults, {}, (), None))


def show_for_recipient(settings: Settings, address: str) -> list[str]:
    """Return which rule of ``recipients`` holds for an address, and the thresholds and actions that follow."""
    position = first_matching_pattern([rule.match for rule in settings.recipients], address)
    rule = None if position is None else settings.recipients[position]
    entry = f"recipients[{position}]: {rule.match.text}" if rule else "the top of the file: no rule matches"
    lines = [f"# {entry}"]
    for name in ("verdict", "actions"):
        lines += [f"{name}:", *_section_lines(getattr(rule or settings, name), {}, (name,), None)]
    return lines


def _section_lines(section: Section, given: object, key: KeyPath, document: Document | None) -> Iterator[str]:
    """Yield the lines of the keys of a section; ``given`` is what the file has for it."""
    values = given if isinstance(given, Mapping) else {}
    indent = "  " * len(key)
    for name in type(section).model_fields:
        value, path = getattr(section, name), (*key, name)
        if isinstance(value, Section) and not _is_written_as_text(value, values.get(name)):
            yield f"{indent}{name}:"
            yield from _section_lines(value, values.get(name), path, document)
            continue
        text = (
            _given_text(values[name])
            if name in values and not isinstance(value, SecretStr)
            else _default_text(value)
        )
        origin = ""
        if document is not None:
            origin = f"  # line {document.line_of(path)}" if name in values else "  # default"
        yield f"{indent}{name}: {text}{origin}"


def _is_written_as_text(section: Section, given: object) -> bool:
    """Return whether a section is one word in the file, as the next hop is."""
    return isinstance(given, str) or (given is None and isinstance(section, MaildirNextHopSetting))


def _given_text(value: object) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").removesuffix("\n")


def _default_text(value: object) -> str:
    if isinstance(value, MaildirNextHopSetting):
        return "maildir"
    if isinstance(value, SecretStr):
        return _given_text(url_with_hidden_password(value))
    if isinstance(value, dict):
        return _given_text(value)
    if isinstance(value, tuple):
        items = [
            item.model_dump(mode="json", exclude_defaults=True) if isinstance(item, Section) else str(item)
            for item in value
        ]
        return _given_text(items)
    return _given_text(value if value is None or isinstance(value, bool | int | float) else str(value))
