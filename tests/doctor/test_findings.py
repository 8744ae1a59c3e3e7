"""Findings, as text and as JSON."""

from __future__ import annotations

from nbstream.doctor.command import describe_findings
from nbstream.findings import Finding, Severity, without_repetitions, worst_severity

FINDINGS = (
    Finding("redis.memory", Severity.PROBLEM, "Redis is full.", "Make room."),
    Finding("redis.clock", Severity.OK, "The clocks agree."),
)


def test_the_worst_finding_counts() -> None:
    assert worst_severity(()) is Severity.OK
    assert worst_severity(FINDINGS) is Severity.PROBLEM


def test_what_another_finding_says_in_more_detail_is_left_out() -> None:
    away = Finding("next_hop", Severity.PROBLEM, "It is away.", "Start it.")
    full = Finding("redis.memory", Severity.WARNING, "Redis is nearly full.", "Make room.")
    not_ready = Finding("listener.http", Severity.PROBLEM, "Not ready.", "Look.", ("next_hop",))
    degraded = Finding("listener.http", Severity.WARNING, "Redis is degraded.", "Look.", ("redis",))

    assert without_repetitions((away, full, not_ready, degraded)) == (away, full, degraded)
    assert without_repetitions((not_ready,)) == (not_ready,)


def test_a_quiet_text_shows_only_what_is_wrong() -> None:
    noted = (*FINDINGS, Finding("dovecot", Severity.NOTE, "It is not here."))

    lines = list(describe_findings(noted, colours=False, quiet=True))

    assert (lines[0], lines[-1]) == ("problem  redis.memory  Redis is full.", "1 problem")
    assert list(describe_findings(FINDINGS[1:], colours=False, quiet=True)) == []
    assert list(describe_findings(FINDINGS[1:], colours=False, quiet=False))[-1] == "nothing is wrong"
