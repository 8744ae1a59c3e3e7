"""What checks would say if some messages had not been learned: the same as when they are unlearned."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, cast

from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts, Totals
from nbstream.filter import FilterPolicy
from nbstream.filter.scorer import Scorer
from nbstream.filter.sources import CountSource
from nbstream.filter.undo import HypotheticalCounts, Preview, preview_verdicts
from nbstream.mail.message import Message
from nbstream.policy.first_scores import FirstScores
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokenizer, Tokens
from tests.filter.filters import make_filter
from tests.letters import letters
from tests.store.notes import NOTE

PARAMS = FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1})


@dataclass
class Fixed:
    """Counts that are given."""

    all: ClassCounts

    async def look_up(self, tokens: Any) -> tuple[Any, Totals]:
        return self.all.look_up(tokens), self.all.totals

    async def counts(self) -> ClassCounts:
        return self.all

    async def first_scores(self) -> FirstScores:
        return FirstScores()


def hypothetical(counts: Fixed) -> HypotheticalCounts:
    return HypotheticalCounts(cast("CountSource", counts))


def scorer(counts: HypotheticalCounts | Model) -> Scorer:
    return Scorer(Classifier(), Calibration(), counts, PARAMS)


def lesson(label: str, *tokens: bytes) -> LedgerEntry:
    return LedgerEntry("v", label, WEIGHT_ONE, tokens, 0.0, "", "", 0.0, ((b"=x", 5),))


async def rows(source: HypotheticalCounts, *names: bytes) -> tuple[list[list[int]], Totals]:
    counts, totals = await source.look_up(names)
    return counts.tolist(), totals


async def test_a_removed_entry_is_subtracted_from_counts_sums_and_totals() -> None:
    counts = ClassCounts()
    counts.add([b"w:a", b"w:b"], 1, WEIGHT_ONE, [(b"=x", 5)])
    counts.add([b"w:b", b"w:c"], 0, 7, [(b"=x", 3)])
    supposed = hypothetical(Fixed(counts))

    supposed.replace_entry(lesson("spam", b"w:a", b"w:b"), lesson("ham", b"w:d"))

    assert await rows(supposed, b"w:a", b"w:b", b"w:c", b"w:d", b"=x", b"w:e") == (
        [[0, 0], [7, 0], [7, 0], [1000, 0], [8, 0], [0, 0]],
        Totals((2, 0), (1014, 0), 3),
    )


async def test_removing_and_adding_the_same_entry_changes_nothing() -> None:
    counts = ClassCounts()
    counts.add([b"w:a", b"w:b"], 1, WEIGHT_ONE)
    supposed = hypothetical(Fixed(counts))

    supposed.replace_entry(lesson("spam", b"w:a", b"w:n"), None)
    supposed.replace_entry(None, lesson("spam", b"w:a", b"w:n"))

    assert await rows(supposed, b"w:a", b"w:n", b"=x") == ([[0, 1000], [0, 0], [0, 0]], counts.totals)


async def test_more_changed_tokens_than_one_look_up_takes_are_all_counted() -> None:
    many = tuple(b"w:%d" % n for n in range(4500))
    counts = ClassCounts()
    counts.add(many[:4000], 1, WEIGHT_ONE)
    supposed = hypothetical(Fixed(counts))

    supposed.replace_entry(lesson("spam", *many[:3500]), lesson("ham", *many[3000:]))

    assert (await supposed.look_up([]))[1] == Totals((1, 0), (1500 * WEIGHT_ONE, 500 * WEIGHT_ONE), 1500)


async def test_previewed_checks_are_to_the_last_bit_those_after_unlearning(client: Redis) -> None:
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    stream = [(label, Message.parse(raw)) for label, raw in letters(40)]
    for label, message in stream:
        await spam_filter.learn(message, label, "test")
    supposed = HypotheticalCounts(model)
    for _, message in stream[:15]:
        supposed.replace_entry(await model.entry(message.key), None)
    tokenizer = Tokenizer()
    would = []
    for _, message in stream:
        tokens = tokenizer.tokenize(message)
        over = scorer(supposed)
        would.append(await over.check_now(message.key, tokens))

    for _, message in stream[:15]:
        await model.commit_lesson(message.key, await model.entry(message.key), None, NOTE)

    assert would == [await spam_filter.check(message) for _, message in stream]


async def stream_of(*messages: CheckedMessage) -> AsyncIterator[CheckedMessage]:
    for message in messages:
        yield message


def checked(key: str, verdict: str, *words: bytes) -> CheckedMessage:
    return CheckedMessage(key, Tokens((), words), 0.5, verdict)


async def test_changed_verdicts_are_counted_by_old_and_new_verdict() -> None:
    counts = ClassCounts()
    for n in range(400):
        counts.add([b"b:good", b"b:fine%d" % (n % 3)], 0, WEIGHT_ONE)
        counts.add([b"b:pills", b"b:cash%d" % (n % 3)], 1, WEIGHT_ONE)
    poison = lesson("spam", b"b:good", *(b"b:fine%d" % n for n in range(3)))
    for _ in range(3000):
        counts.add(poison.tokens, 1, WEIGHT_ONE, poison.sums)
    supposed = hypothetical(Fixed(counts))
    for _ in range(3000):
        supposed.replace_entry(poison, None)
    good = [b"b:good", *(b"b:fine%d" % n for n in range(3))]
    bad = [b"b:pills", *(b"b:cash%d" % n for n in range(3))]

    preview = await preview_verdicts(
        stream_of(
            checked("1", "spam", *good),
            checked("2", "ham", *good),  # before the poison came: now it would be unsure
            checked("3", "unsure", *bad),  # now it would be spam, with and without the poison
            checked("4", "spam", *bad),
            replace(checked("5", "spam", *good), policy="*@x.example"),  # decided by another policy
        ),
        scorer(hypothetical(Fixed(counts))),
        scorer(supposed),
    )

    assert preview == Preview(4, {("unsure", "ham"): 2})


async def test_what_else_was_learned_since_the_checks_changes_no_verdict() -> None:
    counts = ClassCounts()
    for _ in range(400):
        counts.add([b"b:good"], 0, WEIGHT_ONE)
        counts.add([b"b:pills"], 1, WEIGHT_ONE)
    nothing_changed = hypothetical(Fixed(counts))

    preview = await preview_verdicts(
        stream_of(checked("1", "ham", b"b:pills"), checked("2", "spam", b"b:good")),
        scorer(hypothetical(Fixed(counts))),
        scorer(nothing_changed),
    )

    assert preview == Preview(2, {})


async def test_without_remembered_messages_nothing_changes() -> None:
    nobody = scorer(hypothetical(Fixed(ClassCounts())))

    assert await preview_verdicts(stream_of(), nobody, nobody) == Preview(0, {})
