"""The words of the command line: what help promises holds, and wrong words are answered with the right usage."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream.cli.command_line import build_parser
from nbstream.cli.exit_codes import EX_USAGE


def refused(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words.split())
    assert ended.value.code == EX_USAGE
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"), [("learn", "spam x --nope"), ("status", "--nope"), ("quarantine list", "--nope")]
)
def test_a_word_that_a_command_does_not_know_is_refused_with_the_usage_of_that_command(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(f"{command} {words}", capsys)

    assert said.startswith(f"usage: nbstream {command} [-h] [-c FILE]")
    assert said.splitlines()[-1] == f"nbstream {command}: unrecognized arguments: --nope"


@pytest.mark.parametrize(
    "words",
    [
        "-c nb.yaml status",
        "status -c nb.yaml",
        "--config nb.yaml quarantine list",
        "quarantine -c nb.yaml list",
        "quarantine list -c nb.yaml",
        "-c nb.yaml config check",
        "config check --config nb.yaml",
        "-c other.yaml status -c nb.yaml",
    ],
)
def test_the_configuration_is_named_before_or_after_the_command(words: str) -> None:
    assert build_parser().parse_args(words.split()).config == Path("nb.yaml")


@pytest.mark.parametrize("command", ["", "config", "quarantine", "list", "model"])
def test_a_missing_command_is_answered_with_a_line_for_each_that_there_is(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(command, capsys)

    below = [name.removeprefix(command).strip() for name in COMMANDS if name.rpartition(" ")[0] == command]
    assert [line.split()[0] for line in said.splitlines() if line.startswith("  ")] == below
    assert max(map(len, said.splitlines())) <= 80


def test_no_word_can_move_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused("status \x1b[2J", capsys).endswith("unrecognized arguments: ?[2J\n")


@pytest.mark.parametrize(
    "words",
    [
        "check",
        "learn spam",
        "unlearn",
        "evaluate --ham x --spam",
        "tune --with",
        "status -c",
        "config check",
        "export",
    ],
)
def test_an_empty_path_is_not_the_folder_that_one_is_in(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([*words.split(), ""])

    assert ended.value.code == EX_USAGE
    assert "empty" in capsys.readouterr().err


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands, at every depth."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from all_parsers(command)


COMMANDS = {parser.prog.partition(" ")[2]: parser for parser in all_parsers(build_parser())}


EXAMPLES = {name: parser.epilog.splitlines() for name, parser in COMMANDS.items() if parser.epilog}


@pytest.mark.parametrize(
    ("command", "example"), [(name, line) for name, lines in EXAMPLES.items() for line in lines[1:]]
)
def test_the_examples_are_understood(command: str, example: str) -> None:
    program, *words = shlex.split(example.partition("|")[0])

    assert program == "nbstream"
    assert words[: len(command.split())] == command.split() or command in {"config", "quarantine"}
    build_parser().parse_args(words)
