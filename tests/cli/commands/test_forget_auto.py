"""``nbstream forget-auto``, over a real Redis."""

from __future__ import annotations

from nbstream.store.model.model import Model
from tests.cli.taught import Taught
from tests.harness.lessons import TOKENS, change, entry


def learn_auto(taught: Taught, count: int) -> None:
    """Learn so many spam without people."""

    async def run(model: Model) -> None:
        for number in range(count):
            await change(model, f"m{number}", entry("auto-spam:0", TOKENS))

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
    *before, of_people = taught.stored()
    learn_auto(taught, 3)

    assert taught("forget-auto", "--yes")[0] == "dropped: 0 ham, 3 spam learned without people, 8 tokens\n"

    *counts, totals = taught.stored()
    assert counts == before
    assert totals == {**of_people, b"generation": b"1"}
    assert taught.json("forget-auto", "--yes") == [{"done": True, "dropped": {"ham": 0, "spam": 0}, "tokens": 0}]
