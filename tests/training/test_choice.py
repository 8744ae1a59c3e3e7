"""The choice: what is learned as what, in which order, and why the rest is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from nbstream.training.choice import Candidates, Skipped, judge
from nbstream.training.messages import Account, MailboxMessage, MessageFlags, MessageHeader
from tests.training.made_up import message

SEEN, ANSWERED, FLAGGED = MessageFlags.SEEN, MessageFlags.ANSWERED, MessageFlags.FLAGGED


def candidates_of(*accounts: Iterable[MailboxMessage], per_account: int = 2000) -> Candidates:
    candidates = Candidates(per_account)
    for number, messages in enumerate(accounts):
        candidates.add_account(Account(f"user{number}@example.org", f"/mail/{number}"), iter(messages))
    return candidates


def learned(candidates: Candidates) -> list[tuple[str, str, str]]:
    """User, label and locator of all that is learned, in order."""
    chosen = candidates.choose()
    return [(each.account.user[:5], each.label, each.locator.decode()) for each in chosen]


@pytest.mark.parametrize(
    ("folder", "flags", "judged"),
    [
        ("Junk", MessageFlags.NONE, "spam"),
        ("Junk", MessageFlags.NOT_JUNK, Skipped.CONTRADICTED),
        ("Archive", MessageFlags.NONE, "ham"),
        ("Archive", MessageFlags.JUNK, Skipped.CONTRADICTED),
        ("Projects/Harbour", SEEN, "ham"),
        ("Projects/Harbour", MessageFlags.NONE, Skipped.UNREAD),
        ("Projects", FLAGGED, "ham"),
        ("INBOX", MessageFlags.NONE, Skipped.UNREAD),
        ("INBOX", SEEN, Skipped.INBOX),
        ("INBOX", SEEN | ANSWERED, "ham"),
        ("Trash", SEEN, Skipped.TRASH),
        ("Trash/Junk", SEEN, Skipped.TRASH),
        ("Drafts", SEEN, Skipped.DRAFT),
        ("Projects", SEEN | MessageFlags.DRAFT, Skipped.DRAFT),
        ("Sent", SEEN, Skipped.SENT),
        ("Archive", SEEN | MessageFlags.DELETED, Skipped.DELETED),
    ],
)
def test_a_letter_is_judged_by_its_folder_and_its_flags(folder: str, flags: MessageFlags, judged: str) -> None:
    assert judge(message(folder, 1, flags), "ann@example.org", set()) == judged


def test_what_a_letter_in_sent_answers_is_ham() -> None:
    sent = message("Sent", 1, header=MessageHeader(identity=1, message_id=1, answers=3))
    choice = candidates_of([sent, message("INBOX", 2), message("INBOX", 3)])
    assert learned(choice) == [("user0", "ham", "3")]
    assert +choice.left_out == {Skipped.SENT: 1, Skipped.INBOX: 1}


def test_own_letters_in_the_archive_teach_nothing_but_spam_in_the_own_name_is_spam() -> None:
    own = MessageHeader(identity=1, sender="ann@example.org")
    assert judge(message("Archive", 1, header=own), "Ann", set()) is Skipped.SENT  # a login without its domain
    assert judge(message("Archive", 1, header=own), "Ann@example.org", set()) is Skipped.SENT
    assert judge(message("Junk", 1, header=own), "ann@example.org", set()) == "spam"


def test_what_the_filter_itself_has_put_into_junk_is_left_out_wherever_people_look() -> None:
    own = MessageHeader(identity=1, is_own_spam=True)
    assert judge(message("Junk", 1, SEEN, own), "ann@example.org", set()) is Skipped.OWN_VERDICT
    assert judge(message("Archive", 1, SEEN, own), "ann@example.org", set()) == "ham"  # somebody got it out


def test_a_message_in_both_classes_is_left_out_and_of_copies_one_is_learned() -> None:
    choice = candidates_of(
        [message("Junk", 1), message("Junk", 2)],
        [message("Archive", 1), message("Archive", 3)],
        [message("Archive", 3)],
    )
    assert learned(choice) == [("user1", "ham", "3"), ("user0", "spam", "2")]
    assert +choice.left_out == {Skipped.BOTH: 2, Skipped.COPY: 1}


def test_each_class_is_in_the_order_of_time_and_both_are_mixed_evenly() -> None:
    spam = [message("Junk", number) for number in (90, 70, 80)]
    ham = [message("Archive", number) for number in (6, 1, 2, 3, 4, 5)]
    order = [int(locator) for _, _, locator in learned(candidates_of(spam, ham))]
    assert order == [1, 70, 2, 3, 80, 4, 5, 90, 6]


def test_an_account_gives_its_newest_letters_up_to_the_cap() -> None:
    ham = [message("Archive", number) for number in range(10)]
    choice = candidates_of(ham, [message("Archive", 100), message("Junk", 101)], per_account=3)
    assert sorted(int(locator) for _, _, locator in learned(choice)) == [7, 8, 9, 100, 101]
    assert +choice.left_out == {Skipped.CAPPED: 7}


def test_the_larger_class_has_twice_as_many_messages_as_the_other_one() -> None:
    spam = [message("Junk", number) for number in range(300)]
    old = [message("Archive", number) for number in range(1000, 2500)]
    new = [message("Archive", number) for number in range(5000, 5100)]
    choice = candidates_of(spam, old, new)
    assert Counter((user, label) for user, label, _ in learned(choice)) == {
        ("user0", "spam"): 300,
        ("user1", "ham"): 500,
        ("user2", "ham"): 100,
    }
    assert +choice.left_out == {Skipped.UNBALANCED: 1000}
