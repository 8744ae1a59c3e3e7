"""Test, then train: a message is scored before its label is learned, in memory as in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from redis.asyncio import Redis

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.config import Settings
from nbstream.evaluation.regimes import LabelledCheck
from nbstream.evaluation.report import compare_filters, describe_filters
from nbstream.evaluation.run import (
    CachingTokenizer,
    EvaluationOptions,
    EvaluationResult,
    EvaluationRow,
    LabelCounts,
    evaluate,
    read_verdict,
)
from nbstream.evaluation.streams import LabelledContent
from nbstream.filter import Check, FeedbackOutcome, FeedbackResult, ImplicitHamLearner
from nbstream.mail.message import Message
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from nbstream.store.model.model import Model as StoredModel
from nbstream.store.settings import ModelSettings
from tests.harness.samples import samples

SETTINGS = Settings(model=ModelSettings(min_learned=3))
IMMEDIATE = EvaluationOptions()


def stream(count: int) -> list[LabelledContent]:
    return [LabelledContent(label, raw) for label, raw in samples(count)]


async def run_over(
    messages: Iterable[LabelledContent],
    options: EvaluationOptions = IMMEDIATE,
    model: MemoryModel | StoredModel | None = None,
) -> EvaluationResult:
    counts = model or MemoryModel()
    spam_filter = make_filter(SETTINGS, counts, counts, wrap_tokenizer=CachingTokenizer)
    return await evaluate(spam_filter, messages, options, make_message_reader(SETTINGS))


async def test_the_first_ham_of_each_sender_domain_is_marked() -> None:
    senders = [
        ("spam", "ann@one.example"),
        ("ham", "Ann <ann@One.example>"),
        ("ham", "bob@one.example"),
        ("ham", "ann@two.example"),
        ("ham", "nobody"),
    ]
    messages = [LabelledContent(label, f"From: {sender}\n\nhello\n".encode()) for label, sender in senders]

    result = await run_over([*messages, LabelledContent("ham", "a text without a sender")])

    assert [row.is_first_contact for row in result.rows] == [False, True, False, True, False, False]


async def test_a_message_is_scored_before_its_label_is_learned() -> None:
    message = stream(1)[0]

    result = await run_over([message, message])

    first, second = result.rows
    assert (first.score, first.verdict) == (0.0, Verdict.UNSURE)
    assert first.probability == pytest.approx(0.5)
    assert (second.score > 0) == (message.label == "spam")
    assert second.score != 0.0
    assert result.learned == 1  # the second time it is known already


async def test_the_draws_of_a_message_do_not_depend_on_what_was_labelled_before() -> None:
    """A spam is moved by its draw, and this one alone: all are in the inbox while nothing is called spam."""
    moved: list[set[int]] = []
    for taught in (0, 20):
        options = EvaluationOptions("inbox:0.3,0.3,0", seed=4, taught=taught)
        raws = [raw for _, raw in samples(60)]
        model = MemoryModel()
        await run_over([LabelledContent("spam", raw) for raw in raws], options, model)
        keys = [make_message_reader(SETTINGS).read_incoming(raw).key for raw in raws[20:]]
        moved.append({number for number, key in enumerate(keys) if await model.entry(key)})

    assert moved[0] == moved[1]
    assert 0 < len(moved[0]) < 40


def checked(probability: float) -> Check:
    """A check by a model that has learned enough."""
    verdict = Verdict.SPAM if probability >= Thresholds().spam else Verdict.HAM
    return Check(
        id="id",
        verdict=verdict,
        probability=probability,
        score=0.0,
        reason="",
        state=ModelState({}),
        clues=(),
        thresholds=Thresholds(),
    )


@pytest.mark.parametrize(
    ("outcome", "after", "contradictions", "believed_percent"),
    [
        (FeedbackOutcome.LEARNED, 0.49, 1, 100.0),
        (FeedbackOutcome.LEARNED, 0.5, 1, 0.0),
        (FeedbackOutcome.RELEARNED, 0.49, 1, 100.0),
        (FeedbackOutcome.ALREADY, 0.995, 0, None),
    ],
)
def test_a_contradiction_is_believed_if_the_message_is_on_the_side_of_its_label_after_it(
    outcome: FeedbackOutcome, after: float, contradictions: int, believed_percent: float | None
) -> None:
    counts, before = LabelCounts(), checked(0.995)

    lesson = FeedbackResult(outcome, "ham", before, checked(after))

    counts.add(LabelledCheck(Message.from_text("x"), "ham", before), lesson, checked(0.4))

    assert (counts.corrections, counts.contradictions) == (1, contradictions)
    assert counts.believed_percent == believed_percent
    assert counts.believed_twice_percent == (100.0 if contradictions else None)


async def test_what_reinforcing_would_lead_to_is_counted_and_nothing_is_learned_by_it() -> None:
    messages = stream(60)
    model = MemoryModel()

    result = await run_over(messages, EvaluationOptions(label_noise=0.3), model)

    labels = result.labels
    assert labels.believed < labels.believed_twice <= labels.contradictions
    assert result.learned == len(messages)
    assert sum((await model.look_up([]))[1].messages) == len(messages)


async def test_noise_flips_learned_labels_and_no_measured_one() -> None:
    messages = stream(200)
    model = MemoryModel()

    result = await run_over(messages, EvaluationOptions(label_noise=1.0), model)
    _, totals = await model.look_up([])

    assert [row.label for row in result.rows] == [message.label for message in messages]
    spams = sum(message.label == "spam" for message in messages)
    assert totals.messages == (spams, 200 - spams)
    assert result.learned == 200


async def test_verdict_headers_from_outside_have_no_effect() -> None:
    verdict_headers = {"spam": b"X-Spam-Flag: YES\n", "ham": b"X-Nbstream: ham\n"}
    with_headers = [LabelledContent(label, verdict_headers[label] + raw) for label, raw in samples(40)]

    assert (await run_over(with_headers)).rows == (await run_over(stream(40))).rows


def with_repetitions(count: int) -> list[LabelledContent]:
    """Messages, some of which come again with the same label, and some with the other one."""
    messages = stream(count)
    again = [
        LabelledContent("ham" if message.label == "spam" else "spam", message.content)
        for message in messages[5:25:3]
    ]
    return messages[:40] + messages[:10] + again + messages[40:] + messages[5:12]


@pytest.mark.parametrize(
    "options", [IMMEDIATE, EvaluationOptions("delayed:7"), EvaluationOptions("unsure", label_noise=0.1, seed=3)]
)
async def test_redis_gives_the_same_scores_to_the_last_bit(client: Redis, options: EvaluationOptions) -> None:
    messages = with_repetitions(60)

    in_memory = await run_over(messages, options)
    in_redis = await run_over(messages, options, await Model(client, "test", 3600).open())

    assert in_redis.rows == in_memory.rows
    assert len({row.score for row in in_memory.rows}) > 50
    assert (in_redis.learned, in_redis.learned_tokens) == (in_memory.learned, in_memory.learned_tokens)
    assert in_memory.learned > 10


async def test_a_run_can_be_cancelled_between_two_messages() -> None:
    read = 0

    def endless() -> Iterator[LabelledContent]:
        nonlocal read
        while True:
            read += 1
            if read == 3:
                task.cancel()
            yield LabelledContent("ham", "over and over")

    task = asyncio.create_task(run_over(endless()))
    await asyncio.wait([task])

    assert task.cancelled()
    assert read == 3


async def run_spam_only(regime: str, *, autolearns: bool, count: int = 150) -> EvaluationResult:
    model = MemoryModel()
    spam_filter = make_filter(SETTINGS, model, model, wrap_tokenizer=CachingTokenizer, uses_automatic=autolearns)
    implicit_ham = ImplicitHamLearner(spam_filter.parts, spam_filter.policy) if autolearns else None
    options, reader = EvaluationOptions(regime), make_message_reader(SETTINGS)
    return await evaluate(spam_filter, stream(count), options, reader, implicit_ham=implicit_ham)


async def test_where_only_spam_is_moved_implicit_ham_brings_the_first_verdict_and_without_it_there_is_none() -> (
    None
):
    alone = await run_spam_only("spam-only:1,0,20", autolearns=False)
    with_implicit_ham = await run_spam_only("spam-only:1,0,20", autolearns=True)

    assert (alone.first_verdict, alone.autolearned) == (None, 0)
    assert with_implicit_ham.first_verdict
    assert 20 < with_implicit_ham.first_verdict < 40
    assert with_implicit_ham.autolearned > 10
    assert {row.verdict for row in alone.rows} == {Verdict.UNSURE}
    assert Verdict.HAM in {row.verdict for row in with_implicit_ham.rows}


@pytest.mark.parametrize(
    ("field", "verdict"),
    [
        ("X-Spam-Status: No, score=-1.9 required=5.0 tests=ALL_TRUSTED", "ham"),
        ("X-Spam-Flag: YES", "spam"),
        ("X-Spamd-Result: default: False [-0.10 / 15.00]; ARC_NA(0.00)[]", "ham"),
        ("X-Rspamd-Action: no action", "ham"),
        ("X-Bogosity: Unsure, tests=bogofilter, spamicity=0.5, version=1.2.5", "unsure"),
        ("X-Spambayes-Classification: spam; 1.00", "spam"),
        ("X-DSPAM-Result: Innocent", "ham"),
        ("X-Spam-Status: perhaps", None),
        ("X-Spam-Status:", None),
        ("X-Spam-Status: No\nX-Spam-Status: Yes", None),
        ("X-Spam-Status: No\nx-spam-status: no", "ham"),
    ],
)
def test_the_first_word_says_the_verdict(field: str, verdict: str | None) -> None:
    message = f"From: a@x.example\n{field}\nX-Other: yes\n\nX-Spam: yes\n".encode()

    assert read_verdict(message, field.partition(":")[0].upper()) == verdict


def test_both_filters_are_measured_on_the_messages_that_both_have_judged() -> None:
    pairs = [
        ("spam", Verdict.SPAM, Verdict.HAM),
        ("spam", Verdict.UNSURE, Verdict.SPAM),
        ("ham", Verdict.HAM, Verdict.SPAM),
        ("ham", Verdict.HAM, Verdict.UNSURE),
        ("ham", Verdict.SPAM, None),
    ]
    rows = [EvaluationRow(label, 0.0, 0.5, ours, other_verdict=theirs) for label, ours, theirs in pairs]

    report = compare_filters(rows, "X-Spam-Flag")

    assert report == {
        "messages": 4,
        "ours": {"filter": "nbstream", "hm_percent": 0.0, "sm_percent": 50.0, "unsure_percent": 25.0},
        "theirs": {"filter": "X-Spam-Flag", "hm_percent": 50.0, "sm_percent": 50.0, "unsure_percent": 25.0},
    }
    *_, last = describe_filters(report)
    assert last.split() == ["X-Spam-Flag", "50.00", "%", "50.00", "%", "25.00", "%"]
    assert next(describe_filters(compare_filters(rows[4:], "X-Spam-Flag"))).startswith("0 with a verdict")


async def test_the_field_is_read_although_the_message_is_scored_without_it() -> None:
    field = b"X-Spam-Status: Yes, score=9\r\n"
    labelled = [LabelledContent(label, field + raw) for label, raw in samples(4)]

    with_field = await run_over(labelled, EvaluationOptions(other_field="X-Spam-Status"))
    without = await run_over(stream(4), EvaluationOptions(other_field="X-Spam-Status"))

    assert {row.other_verdict for row in with_field.rows} == {Verdict.SPAM}
    assert {row.other_verdict for row in without.rows} == {None}
    assert [row.score for row in with_field.rows] == [row.score for row in without.rows]
