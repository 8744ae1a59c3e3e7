"""The simulated queue gives what the closed formulas of queueing theory give, where there are formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.capacity.queueing import (
    mean_wait_exponential,
    mean_wait_one_worker,
    simulate_load,
    waiting_times,
)


def exponential_sample(mean: float) -> list[float]:
    """Values at equal steps of the distribution function: their mean and variance are almost exact."""
    shares = (np.arange(20_000) + 0.5) / 20_000
    return [float(value) for value in -mean * np.log1p(-shares)]


@pytest.mark.parametrize("workers", [1, 2])
def test_waiting_times_of_a_schedule_by_hand(workers: int) -> None:
    arrivals, services = np.array([0.0, 1.0, 2.0, 9.0]), np.array([3.0, 2.0, 2.0, 1.0])

    waits = waiting_times(arrivals, services, workers)

    assert waits.tolist() == {1: [0.0, 2.0, 3.0, 0.0], 2: [0.0, 0.0, 1.0, 0.0]}[workers]


def test_one_worker_by_running_minimum_and_by_the_order_of_events_agree() -> None:
    generator = np.random.default_rng(3)
    arrivals, services = np.cumsum(generator.exponential(1.0, 5000)), generator.exponential(0.8, 5000)
    free_at, waits = 0.0, []
    for arrival, service in zip(arrivals, services, strict=True):
        waits.append(max(0.0, free_at - arrival))
        free_at = max(arrival, free_at) + service

    assert waiting_times(arrivals, services) == pytest.approx(waits, abs=1e-9)


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_equal_service_times_wait_as_in_the_queue_m_d_1(load: float) -> None:
    service = 0.002
    expected = service * load / (2 * (1 - load))  # Pollaczek and Khinchine without variance

    assert mean_wait_one_worker([service], load) == pytest.approx(expected)
    assert simulate_load([service], load).mean == pytest.approx(service + expected, rel=0.1)


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_exponential_service_times_wait_as_in_the_queue_m_m_c(load: float, workers: int) -> None:
    point = simulate_load(exponential_sample(0.002), load, workers=workers)

    assert point.mean == pytest.approx(0.002 + mean_wait_exponential(0.002, load, workers), rel=0.02)


def test_erlang_with_one_worker_is_m_m_1() -> None:
    assert mean_wait_exponential(0.002, 0.8, 1) == pytest.approx(0.002 * 0.8 / 0.2)


def test_a_few_large_messages_make_all_wait() -> None:
    equal, mixed = simulate_load([0.002], 0.8), simulate_load([0.001] * 99 + [0.101], 0.8)

    assert equal.rate == pytest.approx(mixed.rate)
    assert mixed.p99 > 10 * equal.p99


def test_a_common_queue_waits_less_than_one_queue_for_each_worker() -> None:
    services = exponential_sample(0.002)
    alone, together = simulate_load(services, 0.8), simulate_load(services, 0.8, workers=8)

    assert together.rate == pytest.approx(8 * alone.rate)
    assert together.p99 < alone.p99
