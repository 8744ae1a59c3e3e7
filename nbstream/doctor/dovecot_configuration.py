"""What ``doveconf -n`` prints, read into data. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_VERSION = re.compile(r"^# (\d+)\.(\d+)", re.MULTILINE)
_OPENING = re.compile(r"(\S+)(?:\s+(.*?))?\s*\{")


@dataclass(slots=True)
class DovecotSection:
    """A section such as ``protocol imap { ... }``: its kind, its name, its settings and the sections in it."""

    kind: str = ""
    name: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    sections: list[DovecotSection] = field(default_factory=list)

    def find(self, kind: str) -> Iterator[DovecotSection]:
        """Yield all sections of that kind, at any depth."""
        for section in self.sections:
            if section.kind == kind:
                yield section
            yield from section.find(kind)


@dataclass(frozen=True, slots=True)
class DovecotConfiguration:
    """The version (major, minor), and the whole configuration as a section without a kind."""

    version: tuple[int, int]
    root: DovecotSection

    @property
    def plugin(self) -> dict[str, str]:
        """The settings of all ``plugin`` sections."""
        return {name: value for section in self.root.find("plugin") for name, value in section.settings.items()}

    def imap_plugins(self) -> list[str]:
        """Return the plugins of IMAP: those of ``protocol imap``, or else those of all protocols."""
        for section in self.root.find("protocol"):
            if section.name == "imap" and "mail_plugins" in section.settings:
                return section.settings["mail_plugins"].split()
        return self.root.settings.get("mail_plugins", "").split()


def parse_dovecot(text: str) -> DovecotConfiguration:
    """Return what the output says; a line of another form is left out. An unknown version is (0, 0)."""
    root = DovecotSection()
    open_sections = [root]
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("#"):
            continue
        name, separator, value = line.partition(" = ")
        if separator or line.endswith(" ="):
            open_sections[-1].settings[name.removesuffix(" =").strip()] = value.strip().strip('"').strip()
        elif line == "}":
            if len(open_sections) > 1:
                open_sections.pop()
        elif opening := _OPENING.fullmatch(line):
            section = DovecotSection(opening[1], (opening[2] or "").strip('"'))
            open_sections[-1].sections.append(section)
            open_sections.append(section)
    found = _VERSION.search(text)
    return DovecotConfiguration((int(found[1]), int(found[2])) if found else (0, 0), root)
