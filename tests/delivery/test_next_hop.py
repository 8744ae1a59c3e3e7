"""The replies of a next hop to a message: one for all recipients, or one for each."""

from __future__ import annotations

import pytest

from nbstream.delivery.next_hop import DataReplies, SmtpReply

TAKEN, FULL = SmtpReply(250, "2.0.0 Ok"), SmtpReply(452, "4.2.2 Mailbox full")


def test_one_reply_holds_for_all_recipients() -> None:
    assert DataReplies((FULL,)).per_recipient(3) == (FULL, FULL, FULL)
    assert DataReplies((FULL,)).single == FULL


def test_each_recipient_has_its_own_reply_where_there_is_one_per_recipient() -> None:
    assert DataReplies((TAKEN, FULL)).per_recipient(2) == (TAKEN, FULL)


@pytest.mark.parametrize(("replies", "accepted"), [((TAKEN,), True), ((TAKEN, FULL), False), ((FULL,), False)])
def test_a_message_is_accepted_where_each_reply_says_so(replies: tuple[SmtpReply, ...], accepted: bool) -> None:
    assert DataReplies(replies).accepted == accepted
