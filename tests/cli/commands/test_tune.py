"""``nbstream tune`` as a user meets it, over prequential scores in a real Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.taught import Taught
from tests.harness.samples import samples

COUNT = 120


@pytest.fixture
def labelled(taught: Taught) -> Taught:
    """A model that learned a stream of messages, each after it was scored, and needed none of them to decide."""
    text = taught.config.read_text()
    taught.config.write_text(text.replace("min_learned: 1", "min_learned: 0"))
    taught.teach_all([(raw, label) for label, raw in samples(COUNT)])
    return taught


def other(taught: Taught, verdict: str) -> Path:
    """Another configuration than the live one."""
    path = taught.config.with_name("strict.yaml")
    path.write_text(f"verdict: {verdict}\n")
    return path


def only(taught: Taught, *arguments: str) -> dict[str, Any]:
    (result,) = taught.json("tune", *arguments)
    return result


def first_probabilities(taught: Taught) -> dict[str, list[float]]:
    """P(spam) before the label, from the history."""
    result: dict[str, list[float]] = {"ham": [], "spam": []}
    for change in taught.json("history"):
        result[change["label"]].append(change["before"]["probability"])
    return result


def test_table_and_answers(labelled: Taught) -> None:
    out, _ = labelled("tune")

    lines = out.splitlines()
    result = only(labelled)
    assert lines[0] == (
        f"model test, the last {COUNT} messages labelled: {result['ham']} ham, {result['spam']} spam"
    )
    assert lines[2].split()[:3] == ["threshold", "from", "P"]
    assert any(line.startswith("present ") and " 0.99 " in line for line in lines)
    assert [choice["answer"] for choice in result["budgets"]] == [
        line for line in lines if line.startswith("max_false_positive_rate: ")
    ]
    assert "\033" not in out


def test_another_file_is_compared_on_the_same_mail(labelled: Taught) -> None:
    path = other(labelled, "{unsure: 0.3, spam: 0.6}")
    with labelled.config.open("a") as config:
        config.write("recipients: [{match: '*@strict.example', verdict: {spam: 0.999}}]\n")

    result, scores = only(labelled, "--with", str(path)), first_probabilities(labelled)
    out, _ = labelled("tune", "--with", str(path))

    caught = sum(0.6 <= p < 0.99 for p in scores["spam"])
    assert caught > 0
    strict, for_recipients = result["others"]
    assert (strict["name"], for_recipients["name"]) == ("with strict.yaml", "for *@strict.example")
    moved = {(move["label"], move["was"], move["would"]): move["messages"] for move in strict["moves"]}
    assert moved["spam", "unsure", "spam"] == caught
    said = [line for line in out.splitlines() if line.startswith("with strict.yaml, spam: 0.6 -> threshold 0.6: ")]
    assert len(said) == 1
    assert f"caught {caught} more spam, of the last {COUNT}" in said[0]
