"""The words of the command line: what help promises holds, and wrong words are answered with the right usage."""

from __future__ import annotations

import pytest

from nbstream.cli.parser import EX_USAGE, build_parser


def refused(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words.split())
    assert ended.value.code == EX_USAGE
    return capsys.readouterr().err


def shown(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([*words.split(), "--help"])
    assert not ended.value.code
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("command", "words"), [("learn", "spam x --nope"), ("status", "--nope"), ("quarantine list", "--nope")]
)
def test_a_word_that_a_command_does_not_know_is_told_with_the_usage_of_that_command(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(f"{command} {words}", capsys)

    assert said.startswith(f"usage: nbstream {command} [-h] [-c FILE]")
    assert said.splitlines()[-1] == f"nbstream {command}: unrecognized arguments: --nope"


def test_where_the_file_belongs_is_in_the_usage_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused("-c nb.yaml status", capsys).startswith(
        "usage: nbstream [-h] [--version] COMMAND [-c FILE] ...\n"
    )


def test_no_word_can_move_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused("status \x1b[2J", capsys).endswith("unrecognized arguments: ?[2J\n")


@pytest.mark.parametrize(("command", "label"), [("learn", ["spam"]), ("unlearn", [])])
def test_a_path_that_may_be_left_out_is_shown_so(
    command: str, label: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "[PATH ...] [--id ID ...]" in shown(command, capsys)
    assert build_parser().parse_args([command, *label, "--id", "a" * 24]).paths == []


@pytest.mark.parametrize(
    "words",
    [
        "check",
        "explain",
        "learn spam",
        "unlearn",
        "evaluate --ham x --spam",
        "evaluate",
        "evaluate index --json",
        "evaluate index --scores",
        "evaluate index --plot",
        "replay",
        "tune --with",
        "status -c",
        "config check",
        "config check -c",
        "export",
    ],
)
def test_an_empty_path_is_not_the_folder_that_one_is_in(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([*words.split(), ""])

    assert ended.value.code == EX_USAGE
    assert "empty" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["host", "host:smtp", "host:0", "host:65536", ":25"])
def test_a_door_that_is_no_address_is_wrong_usage(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(f"replay index --smtp {address}", capsys)

    assert said.endswith(f"nbstream replay: argument --smtp: {address} is no HOST:PORT\n")
    assert build_parser().parse_args(["replay", "index", "--smtp", "[::1]:25"]).smtp == ("::1", 25)


def test_one_file_of_a_configuration_is_checked_not_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not allowed with" in refused("config check a.yaml -c b.yaml", capsys)


@pytest.mark.parametrize(
    ("command", "purpose"),
    [
        ("undo", "take back what was taught; without --yes say what"),
        ("quarantine show", "one message, its envelope"),
    ],
)
def test_what_a_command_does_is_in_its_own_help(
    command: str, purpose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"] {purpose}" in shown(command, capsys) or f" ID {purpose}" in shown(command, capsys)
