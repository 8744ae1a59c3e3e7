"""What follows from measured costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.benchmarks.capacity.measured import MEASURED
from tests.benchmarks.capacity.measurements import PRIMARY_SHARE, MirrorCosts


def test_a_message_holds_a_worker_for_its_check_and_the_mean_of_all_beside_it() -> None:
    services = MEASURED.check.service_seconds

    assert [min(services), max(services)] == pytest.approx([0.0015, 0.0065])
    assert sum(services) / len(services) == pytest.approx(MEASURED.check.worker)


def test_where_the_worker_was_quicker_than_the_check_alone_nothing_is_subtracted() -> None:
    check = replace(MEASURED.check, worker=0.0001)

    assert check.service_seconds == MEASURED.check.in_process


def test_one_worker_at_half_load_does_half_of_its_highest_rate() -> None:
    half, *_ = MEASURED.loads()

    assert half.rate == pytest.approx(250.0)
    assert MEASURED.worker_rate(0.5) == pytest.approx(250.0)
    assert half.p50 >= 0.0015


def test_mirrors_share_what_lessons_and_remembered_mail_leave_of_the_core() -> None:
    left = PRIMARY_SHARE - 100 * 0.001 - 1000 * 0.00004

    assert MEASURED.mirrors_fed(100, 1000) == pytest.approx(left / (100 * 0.00001), abs=1)


def test_waiting_costs_where_lessons_are_rare() -> None:
    without = replace(MEASURED, mirrors=MirrorCosts({32: 0.00001}, 0.0, idle=0.0))

    assert MEASURED.mirrors_fed(0.1) < without.mirrors_fed(0.1) / 10
    assert MEASURED.mirrors_fed(100) == without.mirrors_fed(100)


def test_too_many_lessons_leave_no_mirror() -> None:
    assert MEASURED.mirrors_fed(5000) == 0


@pytest.mark.parametrize("feedback_share", [0.001, 0.01, 0.1, 1.0])
def test_one_worker_more_than_a_primary_carries_is_too_many(feedback_share: float) -> None:
    workers = MEASURED.workers_per_primary(feedback_share, 0.5)

    assert MEASURED.primary_share(workers, feedback_share, 0.5) <= PRIMARY_SHARE
    assert MEASURED.primary_share(workers + 1, feedback_share, 0.5) > PRIMARY_SHARE
    assert MEASURED.models_needed(workers, feedback_share, 0.5) == 1
    assert MEASURED.models_needed(workers + 1, feedback_share, 0.5) == 2


def test_twice_the_workers_of_one_model_cost_its_primary_more_than_twice_as_much() -> None:
    assert MEASURED.primary_share(20, 0.1, 0.5) > 2 * MEASURED.primary_share(10, 0.1, 0.5)
