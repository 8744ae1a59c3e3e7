"""``python -m tests.benchmarks.capacity`` works: small runs of its parts, and the page that is made of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.cli.generated_mail import generate_mail
from tests.benchmarks.capacity.measured import MEASURED
from tests.benchmarks.capacity.open_loop import ComparedLoad, compare
from tests.benchmarks.capacity.page import Capacity, mirrors, page
from tests.benchmarks.capacity.replicas import ReplicaCosts, measure_replicas
from tests.benchmarks.test_speed import cells

REPLICAS = ReplicaCosts({0: 0.001, 2: 0.00105}, 0.0002)


@pytest.fixture(scope="module")
def text() -> str:
    compared = ComparedLoad(0.5, 250.0, 500.0, 510.0, 2.0, 9.0, 3.0, 12.0)
    return page(Capacity({"CPU": "some"}, MEASURED, [compared, compared], REPLICAS))


def test_the_page_has_what_was_measured_and_what_was_simulated(text: str) -> None:
    assert cells(text, "check, alone |") == ["check, alone", "1", "ms CPU, mean"]
    assert cells(text, "with mirrors: 32") == ["change, Redis, for each, with mirrors: 32", "10", "µs CPU"]
    assert text.count("| 50% | 250 | 500, 510 | 2.0 | 3.0 | 9.0 | 12.0 |") == 2
    assert cells(text, "50%", "21.6")[:3] == ["50%", "250", "21.6"]
    assert "{" not in text


def test_hosts_multiply_what_a_worker_does(text: str) -> None:
    worker, hosts = cells(text, "one worker"), cells(text, "thirty hosts")

    assert worker[1:] == ["22", "35", "41"]
    assert hosts[1:] == ["5,184", "8,294", "9,850"]


def test_what_mail_needs_is_that_of_the_busy_hour(text: str) -> None:
    # 10 million in a day are 289 in a second of the busy hour; a worker at half load does 250 of them.
    assert cells(text, "| 10 million", "1.0%")[:4] == ["10 million", "1.0%", "2", "2.9"]
    assert int(cells(text, "1,000 million", "10.0%")[-1]) > 1


def test_replicas_feed_mirrors_and_take_a_little_of_the_primary() -> None:
    alone, two = (mirrors(MEASURED, REPLICAS, 100, number) for number in (0, 2))

    assert alone == MEASURED.mirrors_fed(100)
    assert two == pytest.approx(alone - 5 + 2 * (0.7 - 100 * 0.0002) / (100 * 0.00001), abs=3)


@pytest.mark.soak
async def test_a_real_daemon_is_compared_with_the_simulation(redis_binary: Path) -> None:
    half, more = await compare(list(generate_mail(40, 3)), (0.3, 0.5), 0.6)

    assert (half.load, more.load) == (0.3, 0.5)
    assert half.rate == pytest.approx(0.3 * half.capacity_before)
    assert 0 < half.simulated_p50 <= half.simulated_p99
    assert 0 < half.measured_p50 <= half.measured_p99


async def test_replicas_follow_and_their_cost_is_measured(redis_binary: Path) -> None:
    costs = await measure_replicas(list(generate_mail(40, 3)), (0, 1))

    assert list(costs.primary) == [0, 1]
    assert costs.replica > 0
    assert min(costs.primary.values()) > 0
