"""Feedback that looks like a mistake or an attack is reported once for each burst, and ordinary feedback never."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from nbstream.policy.bursts import (
    MIN_CONTRADICTIONS,
    ONE_SIDED_LESSONS,
    WINDOW_SECONDS,
    BurstDetector,
    BurstKind,
    contradicts_confident_verdict,
)
from nbstream.policy.lesson_source import LessonSource
from nbstream.policy.verdict import Verdict

ANN, BEN = LessonSource("smtp", "192.0.2.1"), LessonSource("smtp", "192.0.2.2")


class Teacher:
    """Teaches at a pace, and keeps when a burst began."""

    def __init__(self, bursts: BurstDetector | None = None) -> None:
        self.bursts = bursts or BurstDetector()
        self.now = 1000.0
        self.bursts_begun: list[tuple[int, BurstKind]] = []
        self.lessons = 0

    def teach(self, count: int, labels: str = "spam ham", *, wrong: bool = False, pause: float = 1.0) -> None:
        """``count`` lessons, their labels in turn; ``wrong`` against a confident verdict."""
        for n in range(count):
            self.now += pause
            label = labels.split()[n % len(labels.split())]
            verdict = Verdict.SPAM if (label == "spam") != wrong else Verdict.HAM
            probability = 0.999 if verdict is Verdict.SPAM else 0.001
            self.lessons += 1
            begun = self.bursts.add_lesson(self.now, ANN, label, verdict, probability)
            self.bursts_begun += [(self.lessons, kind) for kind in begun]


def test_enough_contradictions_are_a_burst_that_is_reported_once() -> None:
    teacher = Teacher()

    teacher.teach(500, wrong=True)

    assert teacher.bursts_begun == [(MIN_CONTRADICTIONS, BurstKind.CONTRADICTING)]


def test_enough_lessons_of_one_label_are_a_burst_that_is_reported_once() -> None:
    teacher = Teacher()

    teacher.teach(500, "ham")

    assert teacher.bursts_begun == [(ONE_SIDED_LESSONS, BurstKind.ONE_SIDED)]


def test_wrong_and_one_sided_are_two_bursts() -> None:
    teacher = Teacher()

    teacher.teach(500, "ham", wrong=True)

    assert teacher.bursts_begun == [
        (MIN_CONTRADICTIONS, BurstKind.CONTRADICTING),
        (ONE_SIDED_LESSONS, BurstKind.ONE_SIDED),
    ]


def test_a_few_of_the_other_label_do_not_hide_it() -> None:
    teacher = Teacher()

    teacher.teach(500, "ham " * 24 + "spam")

    assert [kind for _, kind in teacher.bursts_begun] == [BurstKind.ONE_SIDED]


def test_right_labels_do_not_hide_as_many_wrong_ones() -> None:
    teacher = Teacher()

    for _ in range(MIN_CONTRADICTIONS):
        teacher.teach(1, "spam", wrong=True)
        teacher.teach(1, "ham")

    assert [kind for _, kind in teacher.bursts_begun] == [BurstKind.CONTRADICTING]


def test_a_burst_that_ended_may_begin_again() -> None:
    teacher = Teacher()
    teacher.teach(100, wrong=True)
    teacher.now += WINDOW_SECONDS

    teacher.teach(100, wrong=True)

    first = MIN_CONTRADICTIONS
    assert teacher.bursts_begun == [(first, BurstKind.CONTRADICTING), (100 + first, BurstKind.CONTRADICTING)]


@pytest.mark.parametrize("seed", range(5))
def test_ordinary_labels_are_no_burst(seed: int) -> None:
    """Any number of labels, right nineteen times in twenty, spam up to four times in five."""
    draw, teacher = random.Random(seed), Teacher()
    for _ in range(3000):
        label = "spam" if draw.random() < 0.8 else "ham"
        teacher.teach(1, label, wrong=draw.random() < 0.05)

    assert teacher.bursts_begun == []


def test_slow_lessons_are_no_burst() -> None:
    teacher = Teacher()

    teacher.teach(500, "spam", wrong=True, pause=WINDOW_SECONDS / (MIN_CONTRADICTIONS - 2))

    assert teacher.bursts_begun == []


def test_actors_do_not_add_up_and_each_has_bursts_of_its_own() -> None:
    bursts = BurstDetector()
    begun_by_source: dict[LessonSource, list[int]] = {ANN: [], BEN: []}
    for n in range(60):
        for lesson_source, begun in begun_by_source.items():
            if bursts.add_lesson(float(n), lesson_source, "ham", Verdict.SPAM, 0.999):
                begun.append(n + 1)

    assert begun_by_source == {ANN: [MIN_CONTRADICTIONS], BEN: [MIN_CONTRADICTIONS]}


@pytest.mark.parametrize(
    ("label", "verdict", "probability", "expected"),
    [
        ("ham", Verdict.SPAM, 0.95, True),
        ("ham", Verdict.REJECT, 1.0, True),
        ("spam", Verdict.HAM, 0.05, True),
        ("spam", Verdict.HAM, 0.3, False),
        ("ham", Verdict.UNSURE, 0.97, False),
        ("spam", Verdict.SPAM, 0.99, False),
        ("ham", Verdict.HAM, 0.01, False),
    ],
)
def test_only_a_confident_verdict_is_contradicted(
    label: str, verdict: Verdict, probability: float, expected: bool
) -> None:
    assert contradicts_confident_verdict(label, verdict, probability) is expected


def test_memory_is_bounded_over_endless_actors_and_lessons() -> None:
    bursts = BurstDetector()
    tracemalloc.start()
    for n in range(5000):
        bursts.add_lesson(float(n), LessonSource("smtp", f"2001:db8::{n:x}"), "spam", Verdict.SPAM, 0.999)
    before = tracemalloc.get_traced_memory()[0]
    for n in range(5000, 15_000):
        bursts.add_lesson(float(n), LessonSource("smtp", f"2001:db8::{n:x}"), "spam", Verdict.SPAM, 0.999)
    for n in range(10_000):
        bursts.add_lesson(15_000.0 + n, ANN, "spam", Verdict.SPAM, 0.999)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert after < before + 100_000
