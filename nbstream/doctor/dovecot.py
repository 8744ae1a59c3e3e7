"""Dovecot: whether what people move to Junk, and out of it, reaches nbstream."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.doctor.examination import in_thread
from nbstream.doctor.postfix import run_program
from nbstream.findings import FindingKind, note, ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding


# What ``doveconf -n`` prints, read into data. Pure.

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

    @property
    def imap_plugins(self) -> str:
        """The plugins of IMAP: those of ``protocol imap``, or else those of all protocols."""
        own = [
            section.settings.get("mail_plugins")
            for section in self.root.find("protocol")
            if section.name == "imap"
        ]
        plugins = next((value for value in own if value is not None), self.root.settings.get("mail_plugins", ""))
        return " ".join(plugins.split())


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


NOT_FOUND = note("dovecot", "Dovecot was not examined: {why}.")
NEWER = note(
    "dovecot",
    "Dovecot {version} has settings that are not examined.",
    "Move a message to Junk, and see by nbstream history that it was learned.",
)
NOT_CONNECTED = note(
    "dovecot.sieve",
    "Moving messages to Junk teaches nothing: Dovecot has no rules of imapsieve.",
    "See docs/guides/dovecot.md, if people should teach by moving messages.",
)
CONNECTED = ok("dovecot.sieve", "Moving messages to {mailboxes}, and out of it, runs the scripts of imapsieve.")
NO_IMAP_SIEVE = problem(
    "dovecot.plugins",
    "IMAP has the plugins {value} without imap_sieve, so that the rules of imapsieve do nothing.",
    "Write mail_plugins = $mail_plugins imap_sieve in protocol imap, where another file overrides it.",
)
NO_SIEVE_PLUGIN = problem(
    "dovecot.plugins",
    "sieve_plugins is {value}, and {missing} is missing.",
    "Name sieve_imapsieve and sieve_extprograms together: a later setting replaces an earlier one.",
)
NO_PIPE = problem(
    "dovecot.plugins",
    "vnd.dovecot.pipe is not among sieve_global_extensions ({value}).",
    "Add +vnd.dovecot.pipe to sieve_global_extensions.",
)
NO_JUNK_RULE = warning(
    "dovecot.junk",
    "No rule of imapsieve is for messages that come into {mailbox}: they teach nothing.",
    "Add an imapsieve_mailboxN_name = {mailbox} with the causes COPY APPEND.",
)
NO_HAM_RULE = warning(
    "dovecot.junk",
    "No rule of imapsieve is for messages that leave {mailbox}: nobody can say there that mail was good.",
    "Add an imapsieve_mailboxN_from = {mailbox} with the name * and the cause COPY.",
)
NO_SCRIPT = problem(
    "dovecot.scripts",
    "The file {file} of {setting} is not there.",
    "Install the files of deploy/dovecot, as docs/guides/dovecot.md says.",
)

NO_SOCKET_FOLDER = problem(
    "dovecot.scripts",
    "The folder {folder} of sieve_pipe_socket_dir is not there, so that no script reaches nbstream.",
    "Start nbstream with listeners.dovecot.listen in that folder; the path begins at base_dir of Dovecot.",
)
PROGRAM_INSTEAD = note(
    "dovecot.scripts",
    "The folder {folder} of sieve_pipe_socket_dir is not there: Dovecot runs the program in sieve_pipe_bin_dir, "
    "and people wait for it.",
    "See docs/guides/dovecot.md, if nobody should wait.",
)
OTHER_SOCKET_FOLDER = warning(
    "dovecot.scripts",
    "listeners.dovecot has the socket {socket}, and sieve_pipe_socket_dir of Dovecot is {folder}: no script uses "
    "the socket.",
    "Set sieve_pipe_socket_dir to the folder of the socket; the path begins at base_dir of Dovecot.",
)

_DEFAULT_BASE = "/run/dovecot"
_RULE = re.compile(r"imapsieve_mailbox(\d+)_(name|from|causes|before|after)")
EXPECTATIONS: tuple[tuple[Callable[[DovecotConfiguration], str], tuple[str, ...], FindingKind], ...] = (
    (lambda dovecot: dovecot.imap_plugins, ("imap_sieve",), NO_IMAP_SIEVE),
    (
        lambda dovecot: dovecot.plugin.get("sieve_plugins", ""),
        ("sieve_imapsieve", "sieve_extprograms"),
        NO_SIEVE_PLUGIN,
    ),
    (
        lambda dovecot: " ".join(
            dovecot.plugin.get(name, "") for name in ("sieve_global_extensions", "sieve_extensions")
        ).strip(),
        ("vnd.dovecot.pipe",),
        NO_PIPE,
    ),
)
"""Lists of the configuration, the words that each has to have, and what is said where some are missing."""

_JUNK_NAMES = frozenset({"junk", "spam", "inbox.junk", "inbox.spam"})


@dataclass(frozen=True, slots=True)
class ImapSieveRule:
    """A rule of imapsieve: the mailbox that messages come into, and the one that they leave; ``*`` is any."""

    target: str
    source: str


async def examine_dovecot(site: Site) -> Sequence[Finding]:
    """Read the configuration by ``doveconf -n``, and see whether messages that are moved teach."""
    program = shutil.which("doveconf")
    if program is None:
        return [NOT_FOUND(why="it is not installed here")]
    file = site.mail_servers.dovecot
    try:
        output = await run_program([program, "-n", *(["-c", str(file)] if file else [])])
    except OSError as error:
        return [NOT_FOUND(why=error)]
    dovecot = parse_dovecot(output)
    listener = site.settings.listeners.dovecot
    socket = listener.listen.path if listener else None
    return [*judge(dovecot), *await in_thread(lambda: [*_scripts(dovecot), *_socket_folder(dovecot, socket)])]


def judge(dovecot: DovecotConfiguration) -> Iterator[Finding]:
    """Yield what is to be said of a configuration. Pure."""
    if dovecot.version >= (2, 4):
        yield NEWER(version=".".join(map(str, dovecot.version)))
        return
    rules = _rules(dovecot.plugin)
    if not rules:
        yield NOT_CONNECTED()
        return
    findings = [*_plugins(dovecot), *_junk(dovecot, rules)]
    yield from findings
    if not findings:
        yield CONNECTED(mailboxes=", ".join(sorted({rule.target for rule in rules if rule.target != "*"})))


def _rules(plugin: dict[str, str]) -> list[ImapSieveRule]:
    parts: dict[str, dict[str, str]] = {}
    for name, value in plugin.items():
        if rule := _RULE.fullmatch(name):
            parts.setdefault(rule[1], {})[rule[2]] = value
    return [ImapSieveRule(part.get("name", ""), part.get("from", "*")) for part in parts.values()]


def _plugins(dovecot: DovecotConfiguration) -> Iterator[Finding]:
    for values, wanted, finding in EXPECTATIONS:
        value = values(dovecot)
        missing = [name for name in wanted if name not in value.replace("+", " ").split()]
        if missing:
            yield finding(value=value or "(none)", missing=" and ".join(missing))


def _junk(dovecot: DovecotConfiguration, rules: Sequence[ImapSieveRule]) -> Iterator[Finding]:
    """Yield the mailboxes for junk without rules; where a rule is for all mailboxes, its script decides."""
    mailboxes = [
        mailbox.name for mailbox in dovecot.root.find("mailbox") if _is_junk(mailbox.settings, mailbox.name)
    ]
    targets = {rule.target for rule in rules if rule.source == "*"}
    sources = {rule.source for rule in rules}
    for mailbox in mailboxes or ["Junk"]:
        if not targets & {mailbox, "*"}:
            yield NO_JUNK_RULE(mailbox=mailbox)
        elif mailbox not in sources:
            yield NO_HAM_RULE(mailbox=mailbox)


def _is_junk(settings: dict[str, str], name: str) -> bool:
    return "\\junk" in settings.get("special_use", "").lower() or name.lower() in _JUNK_NAMES


def _scripts(dovecot: DovecotConfiguration) -> Iterator[Finding]:
    """Yield the scripts and folders that the settings name and that are not there."""
    for name, value in dovecot.plugin.items():
        rule = _RULE.fullmatch(name)
        is_script = (rule is not None and rule[2] in {"before", "after"}) or name == "sieve_pipe_bin_dir"
        path = Path(value.removeprefix("file:").partition(";")[0])
        if is_script and path.is_absolute() and not path.exists():
            yield NO_SCRIPT(file=path, setting=name)


def _socket_folder(dovecot: DovecotConfiguration, socket: Path | None) -> Iterator[Finding]:
    """Yield what is wrong with the folder of sockets; ``socket`` is that of nbstream, None where it has none."""
    setting = dovecot.plugin.get("sieve_pipe_socket_dir")
    folder = None
    if setting:
        base = dovecot.root.settings.get("base_dir", _DEFAULT_BASE)
        folder = Path(os.path.normpath(Path(base, setting)))
    if (
        socket is not None
        and _rules(dovecot.plugin)
        and (not folder or folder.resolve() != socket.parent.resolve())
    ):
        yield OTHER_SOCKET_FOLDER(socket=socket, folder=folder or "not set")
    elif folder and not folder.exists():
        yield (PROGRAM_INSTEAD if dovecot.plugin.get("sieve_pipe_bin_dir") else NO_SOCKET_FOLDER)(folder=folder)
