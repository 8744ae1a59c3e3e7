"""``nbstream forget-auto`` and what ``status`` says of the layer, over a real Redis."""

from __future__ import annotations

import json

from nbstream.store.model.autolearn_layer import AutolearnModel
from nbstream.store.model.model import Model
from tests.cli.taught import Taught
from tests.store.lessons import TOKENS, change, entry


def learn_auto(taught: Taught, count: int) -> None:
    """Learn so many spam without people."""

    async def run(model: Model) -> None:
        layer = AutolearnModel(model.client, "test", 3600)
        for number in range(count):
            await change(layer, f"m{number}", entry("spam", TOKENS))

    taught.model(run)


def test_without_yes_it_previews_and_changes_nothing(taught: Taught) -> None:
    learn_auto(taught, 3)

    for _ in range(2):
        out, err = taught("forget-auto")
        assert (out, err) == (
            "would be dropped: 0 ham, 3 spam learned without people, 8 tokens\n"
            "nothing was changed; --yes does it\n",
            "",
        )


def test_with_yes_it_is_gone_and_what_people_taught_is_not(taught: Taught) -> None:
    taught.teach(b"Subject: prize\n\nClaim your prize\n", "spam")
    before = taught.stored()
    learn_auto(taught, 3)

    assert taught("forget-auto", "--yes")[0] == "dropped: 0 ham, 3 spam learned without people, 8 tokens\n"

    assert taught.stored() == before
    assert taught.json("forget-auto", "--yes") == [{"done": True, "dropped": {"ham": 0, "spam": 0}, "tokens": 0}]


def test_status_shows_the_layer_where_there_is_one(taught: Taught) -> None:
    as_it_is = taught.config.read_text()
    taught.config.write_text(as_it_is + "autolearn: null\n")
    assert "auto " not in taught("status")[0]
    learn_auto(taught, 2)

    assert "auto     off, not used (learned without people: ham 0, spam 2)" in taught("status")[0]
    taught.config.write_text(as_it_is)
    assert "auto     on (learned without people: ham 0, spam 2)" in taught("status")[0]
    result = json.loads(taught("status", "--json")[0])
    assert (result["autolearn"], result["autolearned"]) == (True, {"ham": 0, "spam": 2})
