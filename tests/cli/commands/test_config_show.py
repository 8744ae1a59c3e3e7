"""What ``nbstream config show`` prints is the settings that hold, with their origin, and can be read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.cli.commands.config import show_settings
from nbstream.daemon.config import load_settings
from nbstream.settings.yaml_file import read_document

ROOT = Path(__file__).parents[3]
WITH_PASSWORD_FILES = {"compose", "container", "redis"}
EXAMPLES = sorted(
    [
        ROOT / "config/nbstream.yaml",
        *(file for file in ROOT.glob("deploy/*/nbstream.yaml") if file.parent.name not in WITH_PASSWORD_FILES),
    ]
)


def shown(file: Path) -> str:
    return "\n".join(show_settings(load_settings(file), read_document(file))) + "\n"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_shown_of_a_file_gives_the_same_settings(file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.yaml"
    again.write_text(shown(file))

    assert load_settings(again).model_dump() == load_settings(file).model_dump()


def test_each_value_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "nbstream.yaml"
    file.write_text(
        "workers: 2\nverdict:\n  spam: 0.98\nrelay: {next_hop: 'smtp://127.0.0.1:10026'}\nquarantine: {}\n"
    )

    lines = shown(file).splitlines()

    assert "workers: 2  # line 1" in lines
    assert "  spam: 0.98  # line 3" in lines
    assert "  unsure: 0.5  # default" in lines
    assert "  next_hop: smtp://127.0.0.1:10026  # line 4" in lines
    assert "  days: 30  # default" in lines


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://user:very:secret@x@127.0.0.1:6379/0", "redis://user:***@127.0.0.1:6379/0"),
        ("redis://user@x:secret@127.0.0.1", "redis://user@x:***@127.0.0.1"),
        ("rediss://:secret@site.example/2", "rediss://:***@site.example/2"),
        ("redis://:secret@site.example?db=1", "redis://:***@site.example?db=1"),
        ("unix://user:secret@/run/redis.sock", "unix://user:***@/run/redis.sock"),
    ],
)
def test_no_password_is_shown(tmp_path: Path, url: str, expected: str) -> None:
    file = tmp_path / "nbstream.yaml"
    file.write_text(f"redis: {{url: '{url}'}}\n")

    text = shown(file)

    assert "secret" not in text
    assert f"url: {expected}  # line 1" in text
