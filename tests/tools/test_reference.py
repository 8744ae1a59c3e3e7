"""What is made from the code is what is committed, and it is complete."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator

import pytest
from pydantic import BaseModel

from nbstream.config import Settings, addresses, values
from nbstream.config.section import Section
from tools.reference import settings
from tools.reference.markup import Undocumented, first_sentence
from tools.reference.pages import PAGES, ROOT, outdated


def test_the_committed_files_are_what_the_code_makes() -> None:
    names = [str(file.relative_to(ROOT)) for file in outdated()]

    assert names == [], f"run `make reference` and commit {', '.join(names)}: the code has changed"


def test_no_other_file_lies_among_the_reference_pages() -> None:
    there = {str(file.relative_to(ROOT)) for file in (ROOT / "docs/reference").iterdir()}

    assert there == {name for name in PAGES if name.startswith("docs/reference/")}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted path of every setting and section, found another way than the page finds them."""
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
    if name.startswith("read_") and name != "read_file"
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.__name__))
def test_the_words_for_a_value_have_every_number_of_the_refusal(reader: Callable[[object], object]) -> None:
    with pytest.raises(ValueError, match=r"^must be ") as refused:
        reader(object())

    words = first_sentence(reader.__doc__ or "")
    numbers = set(re.findall(r"[0-9][0-9.]*[0-9]", str(refused.value)))
    assert [number for number in numbers if number not in words] == []
