"""What is wrong with mail, given what its sender was told and what arrived."""

from __future__ import annotations

import pytest

from tests.soak.chaos.deliveries import mail_deviations
from tests.soak.chaos.journal import Fault, MailAttempt, MailOutcome
from tests.soak.chaos.mails import mail
from tests.soak.chaos.next_hop import Reception, Reply
from tests.soak.chaos.senders import sender_address

ACKNOWLEDGED, REFUSED, NOT_SENT, UNKNOWN = MailOutcome
HOP_FAULT = Fault("next hop: 451", "hop", 0.0, 3.0)


def problems(
    outcome: MailOutcome, *replies: Reply, content: bytes = mail(1), fault: Fault = HOP_FAULT
) -> list[str]:
    attempt = MailAttempt(1, 1, "a", 1.0, 2.0, outcome, "the reply")
    receptions = [Reception(sender_address(1, 1), content, reply) for reply in replies]
    return [deviation.text.rpartition(": ")[2] for deviation in mail_deviations([attempt], receptions, [fault])]


@pytest.mark.parametrize(
    ("outcome", "replies"),
    [
        (ACKNOWLEDGED, [Reply.READ]),
        (ACKNOWLEDGED, [Reply.SENT]),
        (REFUSED, []),
        (REFUSED, [Reply.NOT_SENT]),
        (REFUSED, [Reply.SENT]),
        (NOT_SENT, []),
        (UNKNOWN, []),
        (UNKNOWN, [Reply.READ]),
    ],
)
def test_what_is_right(outcome: MailOutcome, replies: list[Reply]) -> None:
    assert problems(outcome, *replies) == []


@pytest.mark.parametrize(
    ("outcome", "replies", "problem"),
    [
        (ACKNOWLEDGED, [], "it was acknowledged and never arrived"),
        (ACKNOWLEDGED, [Reply.NOT_SENT], "it was acknowledged although the next hop did not"),
        (ACKNOWLEDGED, [Reply.READ, Reply.READ], "it arrived 2 times"),
        (REFUSED, [Reply.READ], "it was refused although the next hop had accepted it"),
        (NOT_SENT, [Reply.READ], "it arrived although it was never sent to its end"),
        (UNKNOWN, [Reply.NOT_SENT, Reply.READ], "it arrived 2 times"),
    ],
)
def test_what_is_wrong(outcome: MailOutcome, replies: list[Reply], problem: str) -> None:
    assert problems(outcome, *replies) == [problem]


def test_mail_is_refused_only_where_more_than_redis_has_failed() -> None:
    link_fault = Fault("connection to Redis: cut", "a", 0.0, 3.0)

    assert problems(REFUSED, fault=link_fault) == ["refused although only Redis had failed"]
    assert problems(REFUSED, fault=Fault("worker: SIGKILL", "a", 0.0, 3.0)) == []
    assert problems(REFUSED, fault=Fault("worker: SIGKILL", "b", 0.0, 3.0)) != []


def test_no_byte_may_be_altered_but_for_our_fields() -> None:
    marked = b"X-Spam-Flag: YES\r\nX-Nbstream: spam,\r\n folded\r\n" + mail(1).replace(b"\n", b"\r\n")

    assert problems(ACKNOWLEDGED, Reply.READ, content=marked) == []
    assert problems(ACKNOWLEDGED, Reply.READ, content=mail(1) + b"\n") == ["it arrived altered"]
    assert problems(ACKNOWLEDGED, Reply.READ, content=b"X-Nbstreak: 1\n" + mail(1)) == ["it arrived altered"]
