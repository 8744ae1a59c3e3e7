"""What became of the recorded lessons of one message, as its steps in the history say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbstream.store.journal.journal import Place, Position
from nbstream.store.model.history import HistoryStep
from nbstream.store.model.lesson_journal import UNKNOWN_VERSION, lesson_files
from nbstream.store.recovery.missing_lessons import LessonFate, fates
from nbstream.store.recovery.recorded_lessons import RecordedLesson


def lesson(milliseconds: int, former_version: str, version: str) -> RecordedLesson:
    place = lesson_files(Path("nowhere")), Place(Position(0, 0), Position(0, 1))
    return RecordedLesson("id", b"%d-0" % milliseconds, "m", former_version, version, "spam", 0.0, *place)


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

    assert fates([lesson(10, "", "v1"), lesson(20, "v1", "v2"), lesson(50, "v2", "v3")], steps) == [
        LessonFate.PRESENT,
        LessonFate.SUPERSEDED,
        LessonFate.MISSING,
    ]


def test_what_the_history_may_have_lost_with_its_oldest_records_is_unknown() -> None:
    lessons = [lesson(10, "", "v1"), lesson(20, "v1", "v2"), lesson(30, "v2", "v3")]

    assert fates(lessons, [step(20, "v1", "v2")], trimmed_until=15) == [
        LessonFate.SUPERSEDED,
        LessonFate.PRESENT,
        LessonFate.MISSING,
    ]
    assert fates(lessons[:1], [], trimmed_until=15) == [LessonFate.UNKNOWN]


def test_the_step_that_a_lesson_followed_supersedes_it_not_even_with_a_later_clock() -> None:
    assert fates([lesson(20, "v1", "v2")], [step(30, "", "v1")]) == [LessonFate.MISSING]
    assert fates([lesson(20, "v1", "v2")], [step(30, "", "v1"), step(21, "v1", "v3")]) == [LessonFate.SUPERSEDED]


def test_of_the_same_millisecond_the_clocks_of_those_who_taught_say_what_was_later() -> None:
    lost, steps = lesson(20, "v1", "v2"), [step(10, "", "v1"), replace(step(20, "v1", "v3"), made_at=5.0)]

    assert fates([replace(lost, made_at=4.0)], steps) == [LessonFate.SUPERSEDED]
    assert fates([replace(lost, made_at=6.0)], steps) == [LessonFate.MISSING]
    assert fates([replace(lost, change=b"19-9", made_at=6.0)], steps) == [LessonFate.SUPERSEDED]
    assert replace(lost, change=b"20-0", made_at=6.0).order > replace(lost, change=b"20-9", made_at=5.0).order


def test_a_step_that_repeats_a_lost_lesson_has_the_time_of_the_lost_one() -> None:
    steps = [step(90, "", "v1", repeats=b"10-0")]

    assert fates([lesson(10, "", "v1"), lesson(20, "v1", "")], steps) == [LessonFate.PRESENT, LessonFate.MISSING]


def test_of_lessons_with_the_same_effect_the_first_ones_are_the_steps_of_the_history() -> None:
    lessons = [lesson(10, "", "v1"), lesson(20, "v1", ""), lesson(30, "", "v1")]

    assert fates(lessons, [step(10, "", "v1"), step(20, "v1", "")]) == [
        LessonFate.PRESENT,
        LessonFate.PRESENT,
        LessonFate.MISSING,
    ]


def test_a_lesson_that_was_found_in_place_is_present_with_any_step_that_left_its_entry() -> None:
    found_in_place = lesson(40, UNKNOWN_VERSION, "v2")

    assert fates([found_in_place], [step(10, "", "v1"), step(20, "v1", "v2")]) == [LessonFate.PRESENT]
    assert fates([found_in_place], [step(90, "v1", "v2", repeats=b"20-0")]) == [LessonFate.PRESENT]
    assert fates([found_in_place], [step(10, "", "v1")]) == [LessonFate.MISSING]


def test_the_work_for_a_message_that_was_taught_thousands_of_times_is_linear() -> None:
    versions = ["", *(f"v{number}" for number in range(2000))]
    pairs = list(itertools.pairwise(versions))
    steps = CountedSteps([step(number, *pair) for number, pair in enumerate(pairs)])
    lessons = [lesson(number, *pair) for number, pair in enumerate(pairs)]

    assert set(fates(lessons, steps)) == {LessonFate.PRESENT}
    assert steps.looks <= 10 * len(pairs)
