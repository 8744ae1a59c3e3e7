"""The whole filter in memory: checks explain themselves, and all that was learned can be taken back."""

from __future__ import annotations

import asyncio
import math

from nbstream.bayes.counts import CLASSES, Totals
from nbstream.filter import Check, Filter
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.header import MessageReader
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.recent.stored_form import pack_explanation, unpack_explanation
from tests.fuzz.target import Choices, FuzzTarget
from tests.harness.memory_filter import TIME, TOKENIZER, memory_filter

_BETWEEN_MESSAGES = b"\n\0\n"
_MAX_MESSAGES = 4
_RUNNER = asyncio.Runner()
_LIMITS = MessageLimits()


def _check(data: bytes) -> None:
    choices = Choices(data)
    steps = [choices.number(256) for _ in range(choices.number(12))]
    raws = choices.rest.split(_BETWEEN_MESSAGES, _MAX_MESSAGES - 1)
    model = MemoryModel()
    spam_filter = memory_filter(model)
    _RUNNER.run(_learn_and_unlearn(spam_filter, model, raws, steps))


async def _learn_and_unlearn(spam_filter: Filter, model: MemoryModel, raws: list[bytes], steps: list[int]) -> None:
    messages = [MessageReader(_LIMITS).read_taught(raw) for raw in raws]
    names: set[bytes] = set()
    for step in steps:
        message = messages[step % len(messages)]
        match step // 16 % 4:
            case 0:
                await spam_filter.unlearn(message, "fuzz")
            case 1:
                _check_result(await spam_filter.check(message), message)
            case kind:
                reinforcement = Reinforcement.AT_ONCE if step >= 128 else Reinforcement.NEVER
                lesson = await spam_filter.learn(message, CLASSES[kind % 2], "fuzz", reinforcement=reinforcement)
                _check_result(lesson.before, message)
                _check_result(lesson.after, message)
        for entry in await model.entries([message.key]):
            if entry:
                names |= {*entry.tokens, *(name for name, _ in entry.sums)}
    for raw, message in zip(raws, messages, strict=True):
        assert (await spam_filter.check(MessageReader(_LIMITS).read_incoming(raw))).id == message.key
        await spam_filter.unlearn(message, "fuzz")
    counts, totals = await model.look_up(sorted(names))
    assert not counts.any()
    assert totals == Totals()


def _check_result(check: Check, message: Message) -> None:
    assert check.id == message.key
    assert 0 <= check.probability <= 1
    assert math.isfinite(check.score)
    sum_of_clues = math.fsum([check.prior, *(clue.log_ratio for clue in check.clues)])
    assert math.isclose(sum_of_clues, check.score, rel_tol=1e-9, abs_tol=1e-9)
    assert check.reason.isascii()
    assert check.reason.isprintable()
    explanation = check.explain(TIME)
    stored = unpack_explanation(pack_explanation(explanation), TOKENIZER.tokenize(message).tokens)
    assert stored is not None
    assert (stored.score, stored.prior, stored.state) == (check.score, check.prior, check.state)
    assert sorted(stored.clues) == sorted(explanation.clues)


_SPAM = (
    b"From: win@example.com\nSubject: prize\nMessage-ID: <1@x>\n\nClaim your free prize now http://win.example\n"
)
_HAM = (
    b"From: ann@example.org\nSubject: Lunch?\nMessage-ID: <2@x>\nReceived: from a by b\n\nShall we have lunch?\n"
)

TARGET = FuzzTarget(
    _check,
    (
        b"\0\4\x20\x30\x10\x20" + _SPAM + _BETWEEN_MESSAGES + _HAM,
        b"\6\x08\x20\x31\x11\x10\xa0\xb1\x20\x01" + _HAM + _BETWEEN_MESSAGES + _SPAM,
        b"\3\6\x20\x31\x21\x30\x10\x00" + _SPAM + _BETWEEN_MESSAGES + b"a text alone",
        b"\4\5\x30\x21\x20\x10\x11" + _SPAM + _BETWEEN_MESSAGES + _SPAM.replace(b"prize", b"money"),
        b"\5\5\x30\x21\x20\x10\x11" + _HAM + _BETWEEN_MESSAGES + _HAM.replace(b"lunch", b"dinner"),
        b"\0\4\x20\x30\x10\x20" + b"X-Nbstream: x\n" + _SPAM + _BETWEEN_MESSAGES,
    ),
    words=(_BETWEEN_MESSAGES, b"\nX-Nbstream: ham; id=a\n", b"Received: from c by d\n", b"\n\n", b"=x: y\n"),
    mutations=300,
)
