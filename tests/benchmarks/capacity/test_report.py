"""The report of ``nbstream bench``, from measurements that are given."""

from __future__ import annotations

import json

from tests.benchmarks.capacity.measured import MEASURED
from tests.benchmarks.capacity.report import CapacityReport

REPORT = CapacityReport(MEASURED, {"mail": "generated, seed 17", "server": "redis 7.0.15"}, 21.4)


def line(text: str, *words: str) -> str:
    (found,) = (row for row in text.splitlines() if all(word in row for word in words))
    return " ".join(found.split())


def test_the_text_says_with_what_it_was_measured_what_it_costs_and_what_that_means() -> None:
    text = REPORT.to_text()

    assert text.startswith(
        "Measured in 21 s: mail generated, seed 17; server redis 7.0.15.\nThe mail: 1,000 messages"
    )
    assert (
        line(text, "a check, alone")
        == "a check, alone 1.00 ms CPU p50 0.50 ms, p99 5.50 ms; 1,000 a second on one core"
    )
    assert "500 a second on one core" in line(text, "a check through HTTP")
    assert line(text, "its change") == "its change on the stream 7.0 kB to each mirror"
    assert line(text, "50%", "/s").startswith("50% 250/s 21.6 million 500/s 43.2 million")
    assert line(text, "without mirrors") == "lessons 350 a second without mirrors"
    assert line(text, "at 100 lessons a second") == "mirrors 600 at 100 lessons a second, without mail"


def test_the_columns_stand_below_each_other() -> None:
    rows = [row for row in REPORT.to_text().splitlines() if "s CPU" in row]

    assert len(rows) > 5
    assert len({row.index("CPU") for row in rows}) == 1


def test_the_json_has_the_same_in_seconds_and_bytes() -> None:
    result = json.loads(REPORT.to_json())

    assert result["check"]["cpu_mean"] == 0.001
    assert result["check"]["worker_per_second_http"] == 500
    assert [load["load"] for load in result["loads"]] == [0.5, 0.8, 0.95]
    assert result["loads"][0]["messages_per_day"] == 250 * 86_400
    assert result["lesson"]["change_bytes"] == 7000
    assert result["mirror"]["redis_cpu_of_a_change"] == {"1": 4e-05, "32": 1e-05}
    assert result["primary"]["mirrors_at_lessons_per_second"]["100"] == 600
    assert result["primary"]["lessons_per_second"] == 350
