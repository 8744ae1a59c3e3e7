"""The committed reference is what the code makes."""

from __future__ import annotations

import argparse

from nbstream.cli.exit_codes import ERROR_EXIT_CODES, EXIT_CODE_MEANINGS
from tools.reference import commands
from tools.reference.pages import ROOT, outdated


def test_the_committed_files_are_what_the_code_makes() -> None:
    names = [str(file.relative_to(ROOT)) for file, _ in outdated()]

    assert names == [], f"run `make reference` and commit {', '.join(names)}: the code has changed"


def test_the_usage_shows_what_is_needed_and_what_excludes_what() -> None:
    parser = argparse.ArgumentParser(prog="nbstream x")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("file", nargs="?", metavar="FILE")
    parser.add_argument("-l", "--label", choices=("spam", "ham"))
    either = parser.add_mutually_exclusive_group()
    either.add_argument("-n", metavar="N")
    either.add_argument("--all", action="store_true")

    assert commands.usage(parser) == "nbstream x [-l spam|ham] [-n N | --all] PATH ... [FILE]"


def test_every_exit_code_of_an_error_is_explained() -> None:
    assert set(ERROR_EXIT_CODES.values()) <= EXIT_CODE_MEANINGS.keys()
