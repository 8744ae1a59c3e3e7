"""The example of the configuration: every key at its default, with its meaning as a comment above it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tools.reference import settings
from tools.reference.settings import Setting, SettingsSection

_WIDTH = 105  # and ten for the indentation
_RULE = '- {match: "*@sales.example", verdict: {spam: 0.99}, actions: {spam: quarantine}}'


def text() -> str:
    """Return the file as YAML."""
    top, *sections = settings.sections()
    head = [*_comment("nbstream: every setting at its default. Made by `make reference` from the code."), "#"]
    for paragraph in settings.DESCRIPTION.strip().split("\n\n"):
        head += [*_comment(paragraph), "#"]
    lines = [*head[:-1], *_body(top, sections)]
    return "\n".join(lines) + "\n"


def _body(section: SettingsSection, sections: list[SettingsSection]) -> Iterator[str]:
    """Yield the lines of a section's keys; those that are sections themselves come last."""
    for setting in section.settings:
        yield from _separator(section)
        yield from _comment(f"{settings.meaning_with_note(setting)} Values: {setting.values}.")
        yield f"{_name(setting.key)}: {_default(setting)}"
    for child in sections:
        if child.key.rpartition(".")[0] == section.key:
            yield from _separator(section)
            yield from _comment(" ".join((child.meaning, *settings.notes(child))))
            yield from _mapping(child, sections)


def _separator(section: SettingsSection) -> tuple[str, ...]:
    """Return an empty line between the keys at the top of the file, none between those of a section."""
    return () if section.key else ("",)


def _mapping(section: SettingsSection, sections: list[SettingsSection]) -> Iterator[str]:
    name = _name(section.key.removesuffix("[]"))
    body = [f"  {line}" for line in _body(section, sections)]
    if section.repeated:
        for setting in section.settings:
            yield from _comment(f"{_name(setting.key)}: {setting.meaning} Values: {setting.values}.")
        if section.items:
            yield f"{name}:"
            yield from (f"  - {item}" for item in section.items)
        else:
            yield f"# {_RULE}"
            yield f"{name}: []"
    elif section.off:
        yield f"{name}: null"
        yield from (f"# {line}" for line in body)
    else:
        yield f"{name}:"
        yield from body


def _name(key: str) -> str:
    return key.rpartition(".")[2]


def _default(setting: Setting) -> str:
    if not setting.default.startswith("`"):
        return "..."  # it has no default
    return setting.default.split("`")[1]


def _comment(markdown: str) -> Iterator[str]:
    """Yield a paragraph of Markdown as comment lines, without its markup."""
    plain = " ".join(markdown.split()).replace("`", "")
    for note in ("Applied by a reload.", "applied by a reload"):
        plain = plain.replace(f"*{note}*", note)
    yield from textwrap.wrap(
        plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False, break_long_words=False
    )
