"""Measurements for tests, with round figures."""

from __future__ import annotations

from tests.benchmarks.capacity.measurements import (
    CheckCosts,
    LessonCosts,
    MailSample,
    Measurements,
    MirrorCosts,
    RememberedCosts,
    TokenMemory,
)

MEASURED = Measurements(
    cpus=2,
    mail=MailSample(1000, 7000.0, 400.0),
    check=CheckCosts([0.0005] * 90 + [0.0055] * 10, 0.002),
    lesson=LessonCosts([0.002] * 99 + [0.010], 0.001, 500.0, 7000.0, 3000.0),
    remembered=RememberedCosts(0.00004, 4000.0),
    mirrors=MirrorCosts({1: 0.00004, 32: 0.00001}, 0.0002, 0.0001),
    tokens=TokenMemory(150.0, 85.0, is_shared=False),
)
"""A check of 1 ms in the mean, of 2 ms with all that a worker does; a lesson of 1 ms of Redis."""
