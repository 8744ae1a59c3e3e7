"""The search for messages that cost much: every recipe can be made, and a seed gives the same changes."""

from __future__ import annotations

import random

import pytest

from nbstream.mail.message import Message
from tests.benchmarks.expensive_input import changed, search
from tests.expensive_messages import KNOWN, Recipe, ordinary_text


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_message_has_about_the_size_that_is_asked_for(name: str) -> None:
    raw = KNOWN[name].message(60_000)

    assert 10_000 < len(raw) < 130_000
    assert Message.parse(raw).is_mail


def test_the_same_seed_makes_the_same_recipes() -> None:
    recipes = [Recipe((b"a",))] * 2
    draws = [random.Random(7) for _ in recipes]
    for _ in range(50):
        recipes = [changed(recipe, draw) for recipe, draw in zip(recipes, draws, strict=True)]

    assert recipes[0] == recipes[1]
    assert recipes[0] != Recipe((b"a",))


def test_a_search_returns_the_worst_first() -> None:
    _, worst = search(0.0, 1)

    assert [ratio for ratio, _ in worst] == sorted((ratio for ratio, _ in worst), reverse=True)
    assert len(ordinary_text(10_000)) > 9_000
