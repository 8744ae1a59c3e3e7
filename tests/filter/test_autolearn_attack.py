"""Strangers write what automatic learning learns: what they can change by that is bounded.

People label 900 messages first, and after that nobody says anything. Each mail of the stranger is ham that people
know with the words and the link of a campaign, and is followed by a plain spam, so that no class leads.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import cycle

import pytest

from nbstream.daemon.assembly.filter import make_autolearner, make_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.config import Settings
from nbstream.filter import Filter
from nbstream.policy.autolearn import MAX_SHIFT
from nbstream.store.model.memory_model import MemoryModel
from tests.harness.samples import samples

SETTINGS = Settings.model_validate({"autolearn": {}})
HEADER = b"From: Zora Plim <zora@campaign.example>\r\nTo: you@victim.example\r\nSubject: zorvexa\r\n"
CAMPAIGN = b"zorvexa plimquat vandrelo quibexin mordavel\r\nhttp://www.campaign.example/order/now\r\n"
PAIRS = 60


@cache
def mail() -> dict[str, list[bytes]]:
    """The messages of each class."""
    return {label: [raw for name, raw in samples(1000) if name == label] for label in ("ham", "spam")}


def with_campaign(raw: bytes, number: int) -> bytes:
    body = raw.partition(b"\n\n")[2]
    return HEADER + b"Message-ID: <%d@campaign.example>\r\n\r\n" % number + body + b"\r\n" + CAMPAIGN


async def probabilities(spam_filter: Filter, raws: list[bytes]) -> list[float]:
    read = make_message_reader(SETTINGS).read_incoming
    return [(await spam_filter.check(read(raw))).full_probability for raw in raws]


@pytest.mark.parametrize("bounded", [True, False])
async def test_a_campaign_that_strangers_prepared_as_ham_stays_spam_because_of_the_bound(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # These messages are so alike that a model soon has nothing to learn from more of them: here it goes on.
    monkeypatch.setattr("nbstream.policy.autolearn.MAX_SCORE", math.inf)
    if not bounded:
        monkeypatch.setattr("nbstream.policy.autolearn.MAX_SHIFT", 1000 * MAX_SHIFT)
        monkeypatch.setattr("nbstream.policy.autolearn.SPAM_MARGIN", math.inf)
    read, people = make_message_reader(SETTINGS).read_incoming, MemoryModel()
    by_people = make_filter(SETTINGS, people, people)
    for label, raw in samples(900):
        await by_people.learn(read(raw), label, "test")
    campaign = [with_campaign(raw, number) for number, raw in enumerate(mail()["spam"][-20:])]
    assert min(await probabilities(by_people, campaign)) >= 0.999

    learner = make_autolearner(SETTINGS, people, people)
    checking = make_filter(SETTINGS, people, people, learner, uses_automatic=True)
    for number, ham, spam in zip(range(PAIRS), cycle(mail()["ham"]), cycle(mail()["spam"]), strict=False):
        for raw in (with_campaign(ham, 1000 + number), b"Message-ID: <%d@x.example>\r\n" % number + spam):
            await checking.check(read(raw))
            await learner.learn_queued()

    learned = (await people.look_up_columns((), automatic=True))[1].messages
    assert min(learned) > PAIRS // 2
    after = min(await probabilities(checking, campaign))
    assert (after >= 0.95) == bounded, after
