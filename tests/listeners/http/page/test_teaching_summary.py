"""``nbstream.listeners.http.page.teaching_view``: pure, over changes that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from nbstream.listeners.http.page.teaching_view import (
    DAYS,
    MAX_LISTED,
    page_of_changes,
    summarize_teaching,
)
from nbstream.policy.bursts import MIN_CONTRADICTIONS, ONE_SIDED_LESSONS, BurstKind
from nbstream.policy.lesson_source import COMMAND_SOURCE
from nbstream.store.model.history import UNDO_SOURCE, Assessment, HistoryChange, LessonNote

NOON = datetime(2026, 6, 15, 12).astimezone().timestamp()
DAY = 86_400.0
_numbers: Iterator[int] = iter(range(1, 10**9))


def change(
    label: str | None = "spam",
    former: str | None = None,
    *,
    at: float = NOON,
    key: str = "",
    verdict: str = "unsure",
    probability: float = 0.5,
    source: str = "http",
    actor: str = "ann",
) -> HistoryChange:
    number = next(_numbers)
    before = Assessment(probability, verdict)
    return HistoryChange(
        id=b"%d-%d" % (at * 1000, number),
        at=at,
        message_key=key or f"m{number}",
        label=label,
        version=f"v{number}" if label else None,
        former_label=former,
        former_version="v0" if former else None,
        note=LessonNote(source, actor, before, before),
    )


def test_nothing_taught_is_an_empty_summary() -> None:
    summary = summarize_teaching([], NOON)

    assert (summary.changes, summary.since) == (0, None)
    assert len(summary.days) == DAYS
    assert not any(day.taken_back or sum(day.learned.values()) for day in summary.days)
    assert not [*summary.teachers, *summary.contradictions, *summary.disputes, *summary.bursts]


def test_days_are_counted_by_class_the_oldest_first() -> None:
    changes = [
        change("ham"),
        change("spam"),
        change(None, "spam"),
        change("spam", at=NOON - DAY),
        change("ham", "spam", source=UNDO_SOURCE, at=NOON - DAY),
        change("spam", at=NOON - DAYS * DAY),
    ]

    *_, yesterday, today = summarize_teaching(changes, NOON).days

    assert (dict(today.learned), today.taken_back) == ({"ham": 1, "spam": 1}, 1)
    assert (dict(yesterday.learned), yesterday.taken_back) == ({"ham": 0, "spam": 1}, 1)
    assert today.day == datetime.fromtimestamp(NOON).astimezone().date()


def test_who_taught_most_comes_first_with_what_went_against_the_verdict() -> None:
    changes = [
        change("spam", actor="ben", at=NOON),
        change("ham", verdict="spam"),
        change("spam", verdict="reject"),
        change(None, "spam", at=NOON - 5),
    ]

    ann, ben = summarize_teaching(changes, NOON).teachers

    assert (ann.actor, dict(ann.learned), ann.taken_back, ann.contradicting) == (
        "ann",
        {"ham": 1, "spam": 1},
        1,
        1,
    )
    assert (ben.actor, ben.changes, ben.last_at) == ("ben", 1, NOON)


@pytest.mark.parametrize(
    ("label", "verdict", "contradicts"),
    [
        ("ham", "spam", True),
        ("ham", "reject", True),
        ("spam", "ham", True),
        ("ham", "ham", False),
        ("spam", "reject", False),
        ("spam", "unsure", False),
        (None, "ham", False),
    ],
)
def test_a_label_contradicts_the_opposite_verdict(label: str | None, verdict: str, contradicts: bool) -> None:
    summary = summarize_teaching([change(label, None if label else "spam", verdict=verdict)], NOON)

    assert summary.contradiction_count == len(summary.contradictions) == contradicts


def test_a_message_taught_both_ways_is_disputed_but_not_by_an_undo() -> None:
    disputed = [change("ham", "spam", key="m1"), change("spam", key="m1")]
    undone = [change("ham", "spam", key="m2", source=UNDO_SOURCE), change("spam", key="m2")]

    summary = summarize_teaching([*disputed, *undone], NOON)

    assert [(dispute.message_key, list(dispute.changes)) for dispute in summary.disputes] == [("m1", disputed)]
    assert summary.dispute_count == 1


def test_lists_are_cut_and_counted() -> None:
    changes = [change("ham", verdict="spam", actor=f"a{number}") for number in range(MAX_LISTED + 5)]

    summary = summarize_teaching(changes, NOON)

    assert list(summary.contradictions) == changes[:MAX_LISTED]
    assert (summary.contradiction_count, len(summary.teachers)) == (MAX_LISTED + 5, MAX_LISTED)


def test_bursts_are_found_once_with_who_and_when() -> None:
    count = MIN_CONTRADICTIONS + 10
    wrong = [
        change("ham", verdict="spam", probability=0.99, at=NOON - number, actor="mallory")
        for number in range(count)
    ]

    (burst,) = summarize_teaching(wrong, NOON).bursts

    assert (burst.kind, burst.source, burst.actor) == (BurstKind.CONTRADICTING, "http", "mallory")
    assert datetime.fromisoformat(burst.since).timestamp() < wrong[-1].at
    assert burst.at < datetime.fromisoformat(burst.until).timestamp() < burst.at + 0.01


def test_while_nothing_is_decided_there_are_no_bursts() -> None:
    bulk = [change("spam", at=NOON - number) for number in range(2 * ONE_SIDED_LESSONS)]
    assert not summarize_teaching(bulk, NOON).bursts

    decided = change("spam", verdict="spam", at=NOON - 1000)
    (burst,) = summarize_teaching([*bulk, decided], NOON).bursts
    assert burst.kind == BurstKind.ONE_SIDED


def test_what_was_taken_back_or_changed_is_no_contradiction_and_no_burst() -> None:
    wrong = [
        change("ham", verdict="spam", probability=0.99, at=NOON - number, key=f"m{number}", actor="mallory")
        for number in range(MIN_CONTRADICTIONS + 10)
    ]
    undone = [change(None, "ham", key=each.message_key, source=UNDO_SOURCE) for each in wrong[1:]]
    corrected = change("spam", "ham", key="m0", verdict="spam", probability=0.99)

    summary = summarize_teaching([corrected, *undone, *wrong], NOON)

    assert not [*summary.contradictions, *summary.bursts]


def test_a_folder_that_a_command_taught_is_no_burst() -> None:
    decided = change("ham", verdict="ham", at=NOON - 60)
    folder = [change("spam", at=NOON - number / 100, source=COMMAND_SOURCE) for number in range(ONE_SIDED_LESSONS)]

    assert not summarize_teaching([*folder, decided], NOON).bursts


def test_pages_go_on_where_the_last_one_ended() -> None:
    changes = [change(at=NOON - number) for number in range(5)]

    first, rest = page_of_changes(changes, None, 2)
    second, rest_of_second = page_of_changes(changes, rest, 2)
    third, end = page_of_changes(changes, rest_of_second, 2)

    assert [*first, *second, *third] == changes
    assert end is None
    assert page_of_changes(changes, None, 5)[1] is None
    assert page_of_changes(changes, b"1-0", 2) == ([], None)
