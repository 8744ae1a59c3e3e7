"""``nbstream model`` and ``--user``: own models as an administrator meets them, over a real Redis."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nbstream.bayes.columns import CLASSES
from nbstream.filter.own_models.index import OwnModelKeys
from nbstream.store.model.model import Model
from tests.cli.taught import Taught

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"
LUNCH = b"Subject: lunch\n\nShall we have lunch on Friday?\n"
ANN, BOB, EVE = "ann@example.org", "bob@example.org", "eve@home.example"


@pytest.fixture
def site(taught: Taught) -> Taught:
    """A model that knows what most people think of prizes; users of example.org have own models."""
    rules = "models: [{match: '*@example.org', name: '{domain}/{local}'}]\n"
    taught.config.write_text(taught.config.read_text() + rules)
    taught.teach_all([(PRIZE, "spam"), (LUNCH, "ham")])
    return taught


@pytest.fixture
def prize(tmp_path: Path) -> str:
    """A file with the prize in other words, which nobody has taught."""
    path = tmp_path / "prize.eml"
    path.write_bytes(PRIZE + b"today\n")
    return str(path)


def test_what_a_user_is_taught_for_is_in_his_model_alone(site: Taught, prize: str) -> None:
    before = site.stored()

    site("learn", "ham", "--user", ANN, prize)

    assert site.stored() == before
    (ann,) = site.json("model", "list")
    assert (ann["name"], ann["learned"], ann["tokens"] > 0) == ("example.org/ann", {"ham": 1, "spam": 0}, True)
    out, _ = site("model", "list")
    assert re.search(r"^ +1 +0 +\d+ +\d+  \d{4}-\S+  example\.org/ann$", out, re.MULTILINE), out
    scores = {user: site.json("check", "--user", user, prize)[0]["score"] for user in (ANN, BOB, EVE)}
    assert scores[ANN] < scores[BOB] == scores[EVE]


def test_history_and_undo_are_those_of_the_user(site: Taught, prize: str) -> None:
    site("learn", "ham", "--user", ANN, prize)

    (change,) = site.json("history", "--user", ANN)
    assert change["change"] == "learned ham"
    assert change["actor"].endswith(f" for {ANN}")
    assert site("history", "--user", BOB)[1] == "nbstream: no change in the history of model 'example.org/bob'\n"
    assert "would be taken back" in site("undo", "--user", ANN, "--since", "1h")[0]
    assert "taken back" in site("undo", "--user", ANN, "--since", "1h", "--yes")[0]
    assert site.json("model", "list")[0]["learned"] == {"ham": 0, "spam": 0}
    assert len(site.json("history")) == 2


def own_counts(site: Taught, name: str) -> list[Any]:
    """Counts by class and totals of an own model."""

    async def run(model: Model) -> list[Any]:
        keys = OwnModelKeys("test", name)
        return [await model.client.hgetall(key) for key in (*map(keys.counts, CLASSES), keys.totals)]

    return site.model(run)


def test_an_own_model_is_copied_through_a_file(site: Taught, prize: str, tmp_path: Path) -> None:
    archive = str(tmp_path / "ann.gz")
    site("learn", "ham", "--user", ANN, prize)
    common = site.stored()

    out, _ = site("export", "--model", "example.org/ann", archive)
    assert out.startswith("exported counts of example.org/ann: 1 ham, 0 spam, ")
    out, _ = site("import", "--model", "example.org/bob", archive)

    assert out.startswith("imported counts of example.org/bob: 1 ham, 0 spam, ")
    assert own_counts(site, "example.org/bob") == own_counts(site, "example.org/ann")
    assert site.stored() == common
    assert [model["name"] for model in site.json("model", "list")] == ["example.org/bob", "example.org/ann"]
    _, err = site("import", "--model", "example.org/bob", archive, code=78)
    assert "is not empty (the counts of example.org/bob), and nothing was imported into it" in err
    content = Path(archive).read_bytes()
    Path(archive).write_bytes(content[: len(content) // 2])
    site("import", "--model", "example.org/carol", archive, code=66)
    assert len(site.json("model", "list")) == 2  # a model that was not imported is not listed
    site("export", archive)
    assert "the models of a site" in site("import", "--model", "example.org/eve", archive, code=66)[1]
