"""The committed reference is what the code makes, and it is complete."""

from __future__ import annotations

import argparse
import inspect
import re
import typing
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter
from pydantic import BaseModel

from nbstream.cli.command_line import build_parser
from nbstream.cli.exit_codes import ERROR_EXIT_CODES, EXIT_CODE_MEANINGS
from nbstream.config import Settings
from nbstream.listeners.http import openapi
from nbstream.settings import values
from nbstream.settings import values as addresses
from nbstream.settings.values import Section
from tools.reference import commands, http_api, metrics, settings
from tools.reference.markup import Undocumented, first_sentence
from tools.reference.pages import PAGES, ROOT, outdated


def test_the_committed_files_are_what_the_code_makes() -> None:
    names = [str(file.relative_to(ROOT)) for file, _ in outdated()]

    assert names == [], f"run `make reference` and commit {', '.join(names)}: the code has changed"


def test_no_other_file_lies_among_the_reference_pages() -> None:
    existing = {str(file.relative_to(ROOT)) for file in (ROOT / "docs/reference").iterdir()}

    assert existing == {name for name in PAGES if name.startswith("docs/reference/")}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of every setting and section, by another way than the page goes."""
    for name, field in model.model_fields.items():
        sections = [
            kind
            for kind in (field.annotation, *typing.get_args(field.annotation))
            if inspect.isclass(kind) and issubclass(kind, BaseModel)
        ]
        if sections and typing.get_origin(field.annotation) is not tuple:
            yield from keys(sections[0], f"{prefix}{name}.")
        yield prefix + name


@pytest.mark.parametrize("key", list(keys(Settings)))
def test_every_setting_is_on_its_page(key: str) -> None:
    page = settings.page()

    assert f"\n| `{key}` |" in page or f"\n## `{key}`\n" in page or f"\n## `{key}[]`\n" in page


def test_a_setting_without_a_text_is_named() -> None:
    class Inner(Section):
        """A section with one key that has a text, and one that has none."""

        good: bool = True
        """Good."""

        bad: bool = True

    with pytest.raises(Undocumented, match=r"the setting bad has no text below it: .*, class Inner"):
        settings.sections(Inner)


READERS = [
    reader
    for name, reader in {**vars(values), **vars(addresses)}.items()
    if name.startswith("read_") and name != "read_text_file"
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.__name__))
def test_the_words_for_a_value_have_every_number_of_the_refusal(reader: Callable[[object], object]) -> None:
    with pytest.raises(ValueError, match=r"^must be ") as refused:
        reader(object())

    words = first_sentence(reader.__doc__ or "")
    numbers = set(re.findall(r"[0-9][0-9.]*[0-9]", str(refused.value)))
    assert [number for number in numbers if number not in words] == []


def test_every_command_is_on_its_page() -> None:
    shown = re.findall(r"^    ([a-z-]+)  ", build_parser().format_help(), re.MULTILINE)
    page = commands.page()

    assert len(shown) > 10
    assert [name for name in shown if f"\n## nbstream {name}" not in page] == []


def test_a_command_or_an_argument_without_help_is_named() -> None:
    parser = argparse.ArgumentParser(prog="nbstream")
    subparsers = parser.add_subparsers()
    subparsers.add_parser("one")

    with pytest.raises(Undocumented, match=r"the command nbstream one has no help"):
        commands.commands(parser)

    subparsers.choices.clear()
    two = subparsers.add_parser("two", help="do one thing")
    two.add_argument("--bare")
    with pytest.raises(Undocumented, match=r"the argument --bare of nbstream two has no help"):
        commands.commands(parser)


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


def test_a_metric_without_help_is_named() -> None:
    registry = CollectorRegistry()
    Counter("nbstream_bare", "", ["label"], registry=registry)

    with pytest.raises(Undocumented, match=r"the metric nbstream_bare_total has no help that is a sentence"):
        list(metrics.exported([registry]))


def test_a_part_of_the_http_api_without_a_text_is_named() -> None:
    document = openapi.document("")
    document["paths"]["/v1/check"]["post"]["summary"] = ""
    with pytest.raises(Undocumented, match=r"POST /v1/check has no summary"):
        http_api.text_of(document)

    document = openapi.document("")
    document["paths"]["/v1/learn"]["post"]["parameters"][0] = {"name": "label"}
    with pytest.raises(Undocumented, match=r"the parameter label of POST /v1/learn has no description"):
        http_api.text_of(document)

    document = openapi.document("")
    del document["components"]["schemas"]["Check"]["description"]
    with pytest.raises(Undocumented, match=r"the schema Check has no description"):
        http_api.text_of(document)
