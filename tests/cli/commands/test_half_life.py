"""A model with a half-life as its administrator meets it: shown, refused when changed, moved by import."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import pytest

from nbstream.store.model.model import Model
from tests.cli.taught import Taught
from tests.letters import letters

LETTERS = list(letters(12))


def configure(taught: Taught, name: str, days: str) -> None:
    first = taught.config.read_text().splitlines()[0]
    taught.config.write_text(
        f"{first}\nmodel: {{name: {name}, half_life_days: {days}, min_learned: {{spam: 1, ham: 1}}}}\n"
    )


@pytest.fixture
def folder(taught: Taught, tmp_path: Path) -> Path:
    """Letters by label, which a model of 30 days has learned."""
    configure(taught, "first", "30")
    for number, (label, raw) in enumerate(LETTERS):
        (tmp_path / label).mkdir(exist_ok=True)
        (tmp_path / label / f"{number}.eml").write_bytes(raw)
    for label in ("spam", "ham"):
        taught("learn", label, str(tmp_path / label))
    return tmp_path


def test_status_shows_the_half_life_and_what_is_left(taught: Taught, folder: Path) -> None:
    (result,) = taught.json("status")
    assert result["half_life_days"] == 30
    assert abs(datetime.fromisoformat(result["half_life_since"]).timestamp() - time.time()) < 600
    assert datetime.fromisoformat(result["half_life_since"]).utcoffset() is not None
    assert 25.9 < result["half_lives_left"] <= 26

    out, _ = taught("status")
    assert "\nhalving  30 days, t0 20" in out
    assert "Z; export and import move it, in 26.0 half-lives at the latest\n" in out


def test_status_of_a_model_without_a_half_life_shows_none(taught: Taught) -> None:
    configure(taught, "plain", "null")
    (result,) = taught.json("status")

    assert [result[name] for name in ("half_life_days", "half_life_since", "half_lives_left")] == [None] * 3
    assert "halving" not in taught("status")[0]


@pytest.mark.parametrize("days", ["31", "null"])
def test_another_half_life_is_78_for_each_command_and_the_text_says_the_way(
    taught: Taught, folder: Path, days: str
) -> None:
    configure(taught, "first", days)

    for arguments in (["status"], ["learn", "spam", str(folder / "ham")], ["export", str(folder / "m.gz")]):
        _, err = taught(*arguments, code=78)
        assert "learned with a half-life of 30 days since" in err
        assert "Set model.half_life_days to 30 again" in err


@pytest.mark.parametrize("days", ["30", "7", "null"])
def test_a_model_moves_to_another_t0_scores_as_it_did_and_can_be_unlearned(
    taught: Taught, folder: Path, days: str
) -> None:
    paths = [str(folder / label) for label in ("spam", "ham")]
    before = [line["score"] for line in checks(taught, *paths)]
    taught("export", str(folder / "m.gz"))
    configure(taught, "second", days)

    out, _ = taught("import", str(folder / "m.gz"))

    assert "model 'second' knows" in out
    assert [line["score"] for line in checks(taught, *paths)] == pytest.approx(before, rel=0.01)
    taught("unlearn", *paths)
    (result,) = taught.json("status")
    assert (result["tokens"], result["learned"]) == (0, {"ham": 0, "spam": 0})


def checks(taught: Taught, *paths: str) -> list[dict[str, float]]:
    """What is said of letters; none is called spam yet."""
    out, _ = taught("check", "--json", *paths)
    return [json.loads(line) for line in out.splitlines()]


def test_top_tokens_shows_what_is_left_now(taught: Taught, folder: Path) -> None:
    fresh = {line["token"]: line["spam"] for line in taught.json("top-tokens", "-k", "5")}

    async def make_older(model: Model) -> None:
        await model.client.hset("nbstream:{first}:schema", "half_life", f"30.0 {time.time() - 60 * 86_400!r}")

    taught.model(make_older)
    older = {line["token"]: line["spam"] for line in taught.json("top-tokens", "-k", "1000")}

    for token, count in fresh.items():
        assert older[token] == pytest.approx(count / 4, rel=0.01)
