"""Labels of a stream that may be wrong: found with those that support them, and listed in a file."""

from __future__ import annotations

import io

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.config import Settings
from nbstream.evaluation.run import CachingTokenizer, EvaluationOptions, EvaluationRow, evaluate
from nbstream.evaluation.streams import LabelledContent
from nbstream.evaluation.suspects import SuspectRow, list_suspects, write_suspects
from nbstream.filter.suspects import Suspect
from nbstream.policy.verdict import Verdict
from nbstream.store.model.memory_model import MemoryModel
from tests.harness.samples import samples

SETTINGS = Settings()


async def suspects_of(messages: list[LabelledContent]) -> list[SuspectRow]:
    model = MemoryModel()
    spam_filter = make_filter(SETTINGS, model, model, wrap_tokenizer=CachingTokenizer)
    result = await evaluate(spam_filter, messages, EvaluationOptions(), make_message_reader(SETTINGS))
    return await list_suspects(spam_filter, result.rows)


def opposite(label: str) -> str:
    return "ham" if label == "spam" else "spam"


async def test_flipped_labels_are_suspects_and_right_ones_are_none() -> None:
    flipped = {150, 200, 250}
    messages = [
        LabelledContent(opposite(label) if number in flipped else label, raw, f"{number}.eml")
        for number, (label, raw) in enumerate(samples(300), start=1)
    ]

    found = await suspects_of(messages)

    assert {each.number for each in found} == flipped
    assert {each.row.name for each in found} == {f"{number}.eml" for number in flipped}
    doubts = [each.suspect.doubt for each in found]
    assert doubts == sorted(doubts, reverse=True)


def test_the_file_has_a_line_for_each_suspect_whatever_its_name_is() -> None:
    names = ["mail/1.eml", "ä.eml", "a\tspam\nb\x1b[2J\u202e\\.eml", "\udce9.eml"]
    rows = [
        SuspectRow(n, EvaluationRow("ham", 1.0, 0.75, Verdict.UNSURE, name=name), Suspect("k", "ham", 0.99))
        for n, name in enumerate(names, start=1)
    ]
    file = io.StringIO()

    write_suspects(file, rows)

    assert file.getvalue().encode().decode().splitlines() == [
        "number\tpath\tlabel\tprobability\tprobability_without",
        "1\tmail/1.eml\tham\t0.75\t0.99",
        "2\tä.eml\tham\t0.75\t0.99",
        "3\ta\\tspam\\nb\\x1b[2J\\u202e\\\\.eml\tham\t0.75\t0.99",
        "4\t\\udce9.eml\tham\t0.75\t0.99",
    ]
