"""``nbstream forget-auto`` and what ``status`` says of the layer, over a real Redis."""

from __future__ import annotations

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
