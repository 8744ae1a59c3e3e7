"""The demo's mail can be told apart, but for the newsletters, about which one lesson decides."""

from __future__ import annotations

from itertools import islice

from nbstream import SpamFilter
from nbstream.demo.command import LESSONS, MIN_LEARNED
from nbstream.demo.mail import all_mail, labelled_mail

SETTINGS = {"model": {"min_learned": MIN_LEARNED}}


def test_after_the_first_lessons_no_labelled_message_is_called_the_other_one() -> None:
    for seed in (1, 2):
        with SpamFilter.in_memory(SETTINGS) as spam_filter:
            for mail in islice(labelled_mail(seed), LESSONS):
                assert mail.label is not None
                spam_filter.learn(mail.raw, "spam" if mail.label == "spam" else "ham")
            checked = [(mail, spam_filter.check(mail.raw)) for mail in islice(all_mail(seed), 200)]

        labelled = [(mail.label, check.verdict) for mail, check in checked if mail.label]
        wrong = [pair for pair in labelled if pair in {("ham", "spam"), ("spam", "ham")}]
        right = [pair for pair in labelled if pair[0] == pair[1]]
        assert len(wrong) <= 2, seed
        assert len(right) > 0.9 * len(labelled), seed


def test_what_somebody_says_of_two_newsletters_holds_for_the_next_one() -> None:
    for seed in (1, 2):
        with SpamFilter.in_memory(SETTINGS) as spam_filter:
            for mail in islice(labelled_mail(seed), LESSONS):
                spam_filter.learn(mail.raw, "spam" if mail.label == "spam" else "ham")
            first, second, *others = islice((mail for mail in all_mail(seed) if mail.label is None), 8)
            for mail in (first, second):
                spam_filter.learn(mail.raw, "spam")

            assert {spam_filter.check(mail.raw).probability > 0.5 for mail in others} == {True}
