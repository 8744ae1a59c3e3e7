"""The metrics of one process."""

from __future__ import annotations

from nbstream.metrics.registry import MetricsRegistry, StateGauge


def test_a_state_gauge_exports_the_series_that_were_set_last() -> None:
    registry = MetricsRegistry()
    policy = StateGauge(registry, "nbstream_policy", "The policy.", ["hash"])
    tokens = StateGauge(registry, "nbstream_tokens", "Tokens.")
    assert [line for line in registry.render().decode().splitlines() if not line.startswith("#")] == []

    policy.set({("one",): 1, ("two",): 1})
    policy.set({("two",): 1})
    tokens.set({(): 7})

    text = registry.render().decode().splitlines()
    assert [line for line in text if not line.startswith("#")] == [
        'nbstream_policy{hash="two"} 1.0',
        "nbstream_tokens 7.0",
    ]


def test_gauges_are_refreshed_before_they_are_read() -> None:
    registry, numbers = MetricsRegistry(), iter(range(10))
    gauge = StateGauge(registry, "nbstream_number", "A number.")
    registry.refresh_by(lambda: gauge.set({(): next(numbers)}))

    assert b"nbstream_number 1.0" in registry.render()
    assert b"nbstream_number 2.0" in registry.render()
