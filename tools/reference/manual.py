"""The manual pages nbstream(1) and nbstream.yaml(5), in roff, from the same sources as the pages of the handbook.

A page is a list of lines with the man macros (man(7)). The source texts are Markdown with the few forms that the
reference pages use: code, emphasis, links and paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from nbstream.cli.command_line import CONFIG_HELP
from nbstream.cli.exit_codes import EXIT_CODE_MEANINGS
from tools.reference import commands, settings
from tools.reference.commands import Command, sentence
from tools.reference.settings import Setting, SettingsSection

_NOTICE = '.\\" Made by `make reference` from the code: change the code, not this file.'
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_EMPHASIS = re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])")


def nbstream_1() -> str:
    """Return the page of the program and its commands."""
    return _page(
        [
            _title("NBSTREAM", 1, "User Commands"),
            *_section("NAME", [r"nbstream \- a spam filter daemon with an online naive Bayes"]),
            *_section("SYNOPSIS", [rf"{_bold('nbstream')} [\-\-version] [\-c FILE] {_bold('COMMAND')} ..."]),
            *_section("DESCRIPTION", _paragraphs(_DESCRIPTION + commands.WORDS)),
            *_section("COMMON OPTIONS", [*_item("-c, --config FILE", sentence(CONFIG_HELP)), *_HELP]),
            *_section("COMMANDS", [line for command in commands.commands() for line in _command(command)]),
            *_section("EXIT STATUS", _codes(EXIT_CODE_MEANINGS)),
            *_section("SIGNALS", [line for name, text in _SIGNALS.items() for line in _item(name, text)]),
            *_section("ENVIRONMENT", [line for name, text in _ENVIRONMENT.items() for line in _item(name, text)]),
            *_section("FILES", [line for name, text in _FILES.items() for line in _item(name, text)]),
            *_section("SEE ALSO", [r"\fBnbstream.yaml\fR(5)"]),
        ]
    )


def nbstream_yaml_5() -> str:
    """Return the page of the configuration file."""
    return _page(
        [
            _title("NBSTREAM.YAML", 5, "File Formats"),
            *_section("NAME", [r"nbstream.yaml \- the configuration of nbstream(1)"]),
            *_section("DESCRIPTION", _paragraphs(settings.DESCRIPTION)),
            *_section("SETTINGS", [line for section in settings.sections() for line in _settings(section)]),
            *_section("SEE ALSO", [r"\fBnbstream\fR(1)"]),
        ]
    )


_DESCRIPTION = """
nbstream stands between a mail server and its mailboxes, scores each message with an online naive Bayes, and
writes the verdict into the header of the message. `nbstream serve` is the daemon; the other commands teach it,
ask it and look after its model.
"""

_HELP = (".TP", r"\fB\-h\fR, \fB\-\-help\fR", "Print the help of the command.")

_SIGNALS = {
    "SIGTERM, SIGINT": (
        "The daemon takes no further mail, lets the work in hand finish within `drain_seconds`, and ends."
    ),
    "SIGHUP": "The daemon reads its configuration again and applies it, as with `nbstream reload`.",
}

_ENVIRONMENT = {
    "XDG_CONFIG_HOME": "The folder in which the user's configuration is looked for instead of `~/.config`.",
    "NO_COLOR": "If it is set, nothing that is printed has colours.",
}

_FILES = {
    "./nbstream.yaml, ~/.config/nbstream/nbstream.yaml, /etc/nbstream/nbstream.yaml": (
        "The configuration: without `-c` the first of these that exists is read."
    ),
    "~/.local/state/nbstream": "Everything that the daemon writes, by default (`state_dir`).",
}


def _page(lines: Iterable[str]) -> str:
    text = "\n".join((_NOTICE, *lines)) + "\n"
    return text.replace(
        "\n.SH NAME\n", "\n.nh\n.ad l\n.SH NAME\n"
    )  # no hyphens are added to names of files and settings


def _title(name: str, section: int, manual: str) -> str:
    return f'.TH {name} {section} "" "nbstream" "{manual}"'


def _section(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f".SH {name}"
    yield from lines


def _command(command: Command) -> Iterator[str]:
    yield f'.SS "nbstream {command.name}"'
    yield from _paragraphs(f"{sentence(command.purpose)} {command.details}")
    yield from _verbatim(command.usage)
    for argument in command.arguments:
        yield from _item(argument.words, sentence(argument.meaning))
    if command.exit_codes:
        yield from _paragraphs("Exit status:")
        yield from _codes(command.exit_codes)
    if command.closing:
        yield from _verbatim(command.closing)


def _settings(section: SettingsSection) -> Iterator[str]:
    yield f'.SS "{section.key or "Top of the file"}"'
    yield from _paragraphs(section.meaning)
    notes = settings.notes(section)
    if notes:
        yield from _paragraphs(" ".join(notes))
    for setting in section.settings:
        yield from _item(setting.key, f"{_allowed(setting)} {settings.meaning_with_note(setting)}")


def _allowed(setting: Setting) -> str:
    return f"{setting.values[0].upper()}{setting.values[1:]}; default {setting.default}."


def _verbatim(text: str) -> Iterator[str]:
    yield from (".PP", ".nf", *(rf"\&{_escaped(line, code=True)}" for line in text.splitlines()), ".fi")


def _codes(meanings: Mapping[int, str]) -> Iterator[str]:
    for code, meaning in meanings.items():
        yield from _item(str(code), meaning)


def _item(tag: str, text: str) -> Iterator[str]:
    """Yield a paragraph with a tag; the text is Markdown, the tag is not."""
    yield ".TP"
    yield _bold(tag)
    yield from _lines(text)


def _paragraphs(markdown: str) -> Iterator[str]:
    for paragraph in markdown.strip().split("\n\n"):
        yield ".PP"
        yield from _lines(paragraph)


def _lines(markdown: str) -> Iterator[str]:
    """Yield the lines of a paragraph, one for each sentence, as man(7) recommends."""
    text = " ".join(markdown.split())
    for line in re.split(r"(?<=[.:]) (?=[A-Z`])", text):
        yield _inline(line)


def _inline(markdown: str) -> str:
    text = _EMPHASIS.sub(r"\1", _LINK.sub(r"\1", markdown))
    pieces = _CODE.split(text)  # every second piece is code
    roff = "".join(_bold(piece) if index % 2 else _escaped(piece) for index, piece in enumerate(pieces))
    return rf"\&{roff}" if roff.startswith((".", "'")) else roff


def _bold(text: str) -> str:
    return rf"\fB{_escaped(text, code=True)}\fR"


def _escaped(text: str, *, code: bool = False) -> str:
    """Return the text with roff's special characters escaped.

    In code a hyphen becomes a minus sign: readers copy code.
    """
    text = text.replace("\\", r"\e").replace("~", r"\(ti").replace("^", r"\(ha").replace("'", r"\(aq")
    return text.replace("-", r"\-") if code else text
