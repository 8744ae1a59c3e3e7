"""What became of the recorded lessons of one message, as its steps in the history say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbstream.store.acknowledged.missing_lessons import Finding, RecordedLesson, find_lessons
from nbstream.store.model.commit import UNKNOWN_VERSION
from nbstream.store.model.history import HistoryStep


def lesson(milliseconds: int, former_version: str, version: str) -> RecordedLesson:
    place: dict[str, Any] = {"path": Path("x"), "position": 0, "size": 1}
    return RecordedLesson(b"%d-0" % milliseconds, "m", former_version, version, "spam", **place)


def step(milliseconds: int, former_version: str, version: str, repeats: bytes = b"") -> HistoryStep:
    return HistoryStep(b"%d-0" % milliseconds, "m", former_version, version, repeats)


class CountedSteps(Sequence[HistoryStep]):
    """Steps that count how often one of them is looked at."""

    def __init__(self, steps: Sequence[HistoryStep]) -> None:
        self._steps = steps
        self.looks = 0

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return self._steps[place]

    def __iter__(self) -> Iterator[HistoryStep]:
        for one in self._steps:
            self.looks += 1
            yield one


def test_a_lesson_is_present_missing_or_superseded() -> None:
    steps = [step(10, "", "v1"), step(40, "v1", "v9")]

    assert find_lessons([lesson(10, "", "v1"), lesson(20, "v1", "v2"), lesson(50, "v2", "v3")], steps) == [
        Finding.PRESENT,
        Finding.SUPERSEDED,
        Finding.MISSING,
    ]


def test_the_step_that_a_lesson_followed_supersedes_it_not_even_with_a_later_clock() -> None:
    assert find_lessons([lesson(20, "v1", "v2")], [step(30, "", "v1")]) == [Finding.MISSING]
    assert find_lessons([lesson(20, "v1", "v2")], [step(30, "", "v1"), step(21, "v1", "v3")]) == [
        Finding.SUPERSEDED
    ]


def test_of_the_same_millisecond_the_clocks_of_those_who_taught_say_what_was_later() -> None:
    lost, steps = lesson(20, "v1", "v2"), [step(10, "", "v1"), replace(step(20, "v1", "v3"), made_at=5.0)]

    assert find_lessons([replace(lost, made_at=4.0)], steps) == [Finding.SUPERSEDED]
    assert find_lessons([replace(lost, made_at=6.0)], steps) == [Finding.MISSING]
    assert find_lessons([replace(lost, change=b"19-9", made_at=6.0)], steps) == [Finding.SUPERSEDED]
    assert replace(lost, change=b"20-0", made_at=6.0).order > replace(lost, change=b"20-9", made_at=5.0).order


def test_a_step_that_repeats_a_lost_lesson_has_the_time_of_the_lost_one() -> None:
    steps = [step(90, "", "v1", repeats=b"10-0")]

    assert find_lessons([lesson(10, "", "v1"), lesson(20, "v1", "")], steps) == [Finding.PRESENT, Finding.MISSING]


def test_of_lessons_with_the_same_effect_the_first_ones_are_the_steps_of_the_history() -> None:
    lessons = [lesson(10, "", "v1"), lesson(20, "v1", ""), lesson(30, "", "v1")]

    assert find_lessons(lessons, [step(10, "", "v1"), step(20, "v1", "")]) == [
        Finding.PRESENT,
        Finding.PRESENT,
        Finding.MISSING,
    ]


def test_a_lesson_that_was_found_in_place_is_present_with_any_step_that_left_its_entry() -> None:
    found_in_place = lesson(40, UNKNOWN_VERSION, "v2")

    assert find_lessons([found_in_place], [step(10, "", "v1"), step(20, "v1", "v2")]) == [Finding.PRESENT]
    assert find_lessons([found_in_place], [step(90, "v1", "v2", repeats=b"20-0")]) == [Finding.PRESENT]
    assert find_lessons([found_in_place], [step(10, "", "v1")]) == [Finding.MISSING]


def test_the_work_for_a_message_that_was_taught_thousands_of_times_is_linear() -> None:
    versions = ["", *(f"v{number}" for number in range(2000))]
    pairs = list(itertools.pairwise(versions))
    steps = CountedSteps([step(number, *pair) for number, pair in enumerate(pairs)])
    lessons = [lesson(number, *pair) for number, pair in enumerate(pairs)]

    assert set(find_lessons(lessons, steps)) == {Finding.PRESENT}
    assert steps.looks <= 10 * len(pairs)
