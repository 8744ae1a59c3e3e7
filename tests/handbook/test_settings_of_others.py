"""The tables of settings on the pages "Coming from ...": every program knows its names, with these defaults."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from nbstream.cli.command_line import build_parser
from tests.handbook.pages import page, section

NAME = r"`([a-z][\w.-]*)`"
OLD = re.compile(NAME + r"(?: \(([^`)]*|`[^`]*`)\))?")
OURS = re.compile(NAME + r"(?: \(`([^`]*)`\))?")
FILTERS = ("rspamd", "spamassassin", "bogofilter")
_SPAMASSASSIN = """\
use Mail::SpamAssassin;
my $filter = Mail::SpamAssassin->new({local_tests_only => 1, dont_copy_prefs => 1});
$filter->init(1);
for my $command (@{$filter->{conf}{registered_commands}}) {
    for my $name ($command->{setting}, @{$command->{aliases} || []}) {
        print "$name\\t", $command->{default} // '', "\\n";
    }
}
"""
_OF_RSPAMD = (Path("/etc/rspamd"), Path("/usr/share/rspamd"), Path("/usr/lib/rspamd"))
_WORKERS = {"worker-proxy": "rspamd_proxy", "worker-normal": "normal", "worker-controller": "controller"}


def cells(name: str) -> Iterator[tuple[str, str]]:
    """The first two cells of each row of the first table of a page."""
    table = section(page(f"guides/{name}"), "What maps to what").partition("\n|")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        _, old, ours, *_ = re.split(r"(?<!\\)\|", row)
        yield old.strip(), ours.strip()


@cache
def our_defaults() -> dict[str, str | None]:
    """The keys of nbstream with their defaults, and its sections with None."""
    text = page("reference/settings.md")
    rows = re.findall(r"^\| `([^`]+)` \| .* \| ([^|]+) \| [^|]*\|$", text.replace(r"\|", "/"), re.MULTILINE)
    sections = re.findall(r"^## `([^`\[]+)", text, re.MULTILINE)
    return {**dict.fromkeys(sections), **dict(rows)}


def output(*words: str, stdin: str = "") -> str:
    """What a program prints."""
    return subprocess.run(words, input=stdin, capture_output=True, text=True, check=True, timeout=60).stdout


@cache
def of_rspamd(rspamadm: str) -> tuple[dict[str, str], bytes]:
    """Its configuration as it comes, by dotted keys, and all its files."""
    configuration = json.loads(output(rspamadm, "configdump", "--json"))
    workers = {name: section for worker in configuration.pop("worker") for name, section in worker.items()}
    configuration.update({name: workers[worker] for name, worker in _WORKERS.items()})
    files = [path for folder in _OF_RSPAMD for path in sorted(folder.rglob("*")) if path.is_file()]
    return dict(_flat(configuration, "")), b"".join(path.read_bytes() for path in files)


def _flat(value: object, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    else:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)


@cache
def of_spamassassin(perl: str) -> dict[str, str]:
    """Its settings and their defaults."""
    lines = output(perl, "-", stdin=_SPAMASSASSIN).splitlines()
    return dict(line.split("\t", 1) for line in lines if "\t" in line)


@cache
def of_bogofilter(bogofilter: str) -> dict[str, str]:
    """Its settings and their defaults."""
    described = re.findall(r"^  --([\w-]+)", output(bogofilter, "--help"), re.MULTILINE)
    values = re.findall(r"^([\w-]+) += ([^#\n]*?) *(?:#.*)?$", output(bogofilter, "-C", "-QQ"), re.MULTILINE)
    return {name.replace("-", "_"): value for name, value in [*((name, "") for name in described), *values]}


@pytest.mark.parametrize("name", FILTERS)
def test_every_setting_of_nbstream_in_the_tables_exists_with_its_default(name: str) -> None:
    found = [match for _, ours in cells(f"coming-from-{name}.md") for match in OURS.findall(ours)]

    assert len(found) > 10
    for key, default in found:
        assert key in our_defaults(), key
        if default and (ours := our_defaults()[key]) is not None:
            assert ours.strip("`") == default or ours.startswith(f"`{default}`"), (key, ours)


def test_every_setting_of_rspamd_is_one_that_it_knows(program: Callable[[str], str]) -> None:
    defaults, files = of_rspamd(program("rspamadm"))

    for old, _ in cells("coming-from-rspamd.md"):
        for key, default in OLD.findall(old):
            assert key in defaults or key.rpartition(".")[2].encode() in files, key
            if default:
                assert defaults[key].endswith(default), key


def test_every_setting_of_spamassassin_is_one_that_it_knows(program: Callable[[str], str]) -> None:
    program("spamassassin")
    defaults = of_spamassassin(program("perl"))

    for old, _ in cells("coming-from-spamassassin.md"):
        for key, default in OLD.findall(old):
            assert key in defaults, key
            if default:
                assert defaults[key] == default.strip("`"), key


def test_every_setting_of_bogofilter_is_one_that_it_knows(program: Callable[[str], str]) -> None:
    defaults = of_bogofilter(program("bogofilter"))

    for old, _ in cells("coming-from-bogofilter.md"):
        for key, default in OLD.findall(old):
            assert key in defaults, key
            if default:
                assert defaults[key] == default, key


COMMANDS = [
    (name, command)
    for name in (*FILTERS, "nothing")
    for command in re.findall(r"`nbstream ([a-z][^`]*)`", page(f"guides/coming-from-{name}.md"))
]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_command_of_nbstream_within_the_text_is_understood(name: str, command: str) -> None:
    build_parser().parse_args(shlex.split(command))


def test_every_option_of_bogofilter_is_one_that_it_knows(program: Callable[[str], str]) -> None:
    known = re.findall(r"^  -(\w)", output(program("bogofilter"), "--help"), re.MULTILINE)

    for letters in re.findall(r"bogofilter ((?:-\w+ ?)+)", page("guides/coming-from-bogofilter.md")):
        assert set(letters) - set("- ") <= set(known), letters
