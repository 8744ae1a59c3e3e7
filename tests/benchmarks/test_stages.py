"""Timings of the stages of a check and of a learn, printed as a table; nothing is asserted of them.

On the first 2,000 messages of trec07p where ``NBSTREAM_CORPORA`` has them, else a visible skip.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import BINS, Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import CLASSES, Counts
from nbstream.bayes.event_models import Counted
from nbstream.filter import Filter, Params
from nbstream.mail.message import Message
from nbstream.policy.policy import Policy
from nbstream.store.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.corpora import trec_stream

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

MESSAGES = 2000


def microseconds(work: Callable[[], object], count: int) -> float:
    """CPU time of one of ``count`` pieces of work."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e6 / count


def test_the_stages_of_a_check(tmp_path: Path) -> None:
    stream = trec_stream(tmp_path, MESSAGES)
    tokenizer, classifier, calibration, counts = Tokenizer(), Classifier(), Calibration(), Counts()
    messages = [Message.parse(raw) for _, raw in stream]

    parse = microseconds(lambda: [message.key for message in messages], MESSAGES)
    tokens = [tokenizer.tokenize(message) for message in messages]
    tokenize = microseconds(lambda: [tokenizer.tokenize(message) for message in messages], MESSAGES)
    for (label, _), each in zip(stream, tokens, strict=True):
        counts.add(each.all, CLASSES.index(label), 1000)
    nothing = np.empty((0, len(CLASSES)), dtype=np.int64)  # the multinomial model alone needs no sums
    look_up = microseconds(lambda: [counts.look_up((*each.all, *BINS)) for each in tokens], MESSAGES)
    looked_up = [(each, Counted(counts.look_up(each.all), nothing, counts.totals)) for each in tokens]
    score = microseconds(lambda: [classifier.score(*each) for each in looked_up], MESSAGES)
    bins, scores = counts.look_up(BINS), [classifier.score(*each).log_odds for each in looked_up]
    calibrate = microseconds(
        lambda: [calibration.probability(each, bins, counts.totals) for each in scores], MESSAGES
    )

    size = sum(len(raw) for _, raw in stream) / MESSAGES
    print(f"\n| stage | µs CPU a message of {size:.0f} bytes |\n|---|---|")
    stages = {"parse and key": parse, "tokenize": tokenize, "look up": look_up, "score": score}
    for name, value in {**stages, "calibrate": calibrate}.items():
        print(f"| {name} | {value:.0f} |")


async def test_the_rate_of_learning(client: Redis, tmp_path: Path) -> None:
    stream = [(label, Message.parse(raw)) for label, raw in trec_stream(tmp_path, MESSAGES)]
    model = Model(client, "bench", 3600)
    spam_filter = Filter(
        tokenizer=Tokenizer(),
        classifier=Classifier(),
        calibration=Calibration(),
        model=model,
        counts=model,
        params=Params(Policy(), {}),
    )

    started = time.perf_counter()
    for label, message in stream:
        await spam_filter.learn(message, label, "bench")

    rate = MESSAGES / (time.perf_counter() - started)
    print(f"\n{rate:.0f} learns a second, one after the other, without a mirror")
