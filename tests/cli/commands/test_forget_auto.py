"""``nbstream forget-auto`` and what ``status`` says of the layer, over a real Redis."""

from __future__ import annotations

import json
import subprocess
import sys

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


def test_a_check_sees_both_layers_while_it_is_on(taught: Taught) -> None:
    letter = taught.config.parent / "letter.eml"
    letter.write_bytes(b"Subject: prize\n\nClaim your prize\n")
    for label, raw in (("spam", letter.read_bytes()), ("ham", b"Subject: lunch\n\nLunch on Friday\n")):
        taught.teach(raw, label)

    async def run(model: Model) -> None:
        layer = AutolearnModel(model.client, "test", 3600)
        await change(layer, "m1", entry("ham", [b"body:prize", b"body:claim", b"subject:prize"]))

    taught.model(run)

    def score() -> float:
        words = [sys.executable, "-m", "nbstream.cli", "check", "-c", str(taught.config), "--json", str(letter)]
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        return float(json.loads(result.stdout)["probability"])

    on = score()
    taught.config.write_text(taught.config.read_text() + "autolearn: null\n")
    assert on < score()


def test_a_label_from_the_command_line_replaces_it_while_it_is_on(taught: Taught) -> None:
    letter = taught.config.parent / "letter.eml"
    letter.write_bytes(b"Subject: prize\n\nClaim your prize\n")
    key = taught.teach(letter.read_bytes(), "ham")
    taught.teach(letter.read_bytes(), None)

    async def auto(model: Model) -> int:
        layer = AutolearnModel(model.client, "test", 3600)
        return sum((await layer.totals()).messages)

    async def learn(model: Model) -> None:
        layer = AutolearnModel(model.client, "test", 3600)
        await change(layer, key, entry("spam", TOKENS))

    taught.model(learn)
    taught.config.write_text(taught.config.read_text() + "autolearn: {}\n")
    assert taught.model(auto) == 1

    taught("learn", "ham", str(letter))

    assert taught.model(auto) == 0
