"""Feedback by mail: what is learned, and from whose ledger."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.mail.message import Message
from nbstream.server.feedback_mailbox import FeedbackMailbox
from nbstream.store.model.model import Model
from tests.harness.own_model_site import ANN, BOB, open_site
from tests.harness.runtimes import make_runtime

NEWS = Message.parse(b"From: news@shop.example\nSubject: offers\n\nAll the bargains of our shop\n")


async def test_an_id_means_what_the_user_himself_has_taught_even_where_it_is_not_remembered_any_more(
    client: Redis,
) -> None:
    async with open_site(client) as site:
        mailbox = FeedbackMailbox(
            make_runtime(site.common, own_filters=site.filters), DaemonMetrics.create(PYTHON).filter
        )
        lesson = await (await site.filters.for_user(ANN)).learn(NEWS, "spam", "test")
        field = f'X-Nbstream: ham; probability=0.020411; reason="x"; model=default; id={lesson.after.id}'
        quoted = f"Subject: Fwd: offers\r\n\r\n> Subject: offers\r\n> {field}\r\n>\r\n> All".encode()

        anns, bobs = [await mailbox.learn(quoted, "ham", "smtp", user=user) for user in (ANN, BOB)]

        assert anns.accepted
        assert not bobs.accepted


@pytest.mark.parametrize("user", ["", "ann", '"ann"', "ann@"])
async def test_where_users_have_own_models_a_lesson_of_nobody_is_refused(client: Redis, user: str) -> None:
    async with open_site(client) as site:
        metrics = DaemonMetrics.create(PYTHON)
        mailbox = FeedbackMailbox(make_runtime(site.common, own_filters=site.filters), metrics.filter)

        reply = await mailbox.learn(NEWS.raw, "spam", "smtp", user=user)

        assert reply.code == 550
        assert "does not say whose lesson it is" in reply.text
        assert (await Model(client, "test", 3600).totals()).messages == (0, 0)
