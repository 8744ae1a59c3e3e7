"""The findings as text and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nbstream.findings import Severity, worst_severity
from nbstream.wire.api_json import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.findings import Finding

_COLOURS = {Severity.OK: "32", Severity.NOTE: "36", Severity.WARNING: "33", Severity.PROBLEM: "31"}
_PLURALS = {Severity.PROBLEM: "problems", Severity.WARNING: "warnings", Severity.NOTE: "notes"}


def findings_to_json(findings: tuple[Finding, ...], version: str, at: float) -> dict[str, Any]:
    """Return the members of the JSON object; ``at`` is the time of the examination in seconds since the epoch.

    ``remedy`` is null where nothing is to be done.
    """
    return {
        "version": version,
        "time": iso_time(at),
        "worst": str(worst_severity(findings)),
        "findings": [
            {
                "check": finding.check,
                "severity": str(finding.severity),
                "what": finding.what,
                "remedy": finding.remedy or None,
            }
            for finding in findings
        ],
    }


def render_text(findings: tuple[Finding, ...], *, colours: bool, quiet: bool) -> Iterator[str]:
    """Yield a line for each finding, one for its remedy, and one that counts them.

    Where it is ``quiet``, only warnings and problems are shown, and nothing where there are none.
    """
    least = Severity.WARNING if quiet else Severity.OK
    shown = [finding for finding in findings if finding.severity.rank >= least.rank]
    width = max((len(finding.check) for finding in shown), default=0)
    for finding in shown:
        word = f"{finding.severity:<7}"
        word = f"\x1b[{_COLOURS[finding.severity]}m{word}\x1b[0m" if colours else word
        yield f"{word}  {finding.check:<{width}}  {finding.what}"
        if finding.remedy:
            yield f"{'':9}{'':{width}}  -> {finding.remedy}"
    if shown:
        yield _count(shown)


def _count(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    parts = [
        f"{counts[severity]} {plural if counts[severity] != 1 else severity}"
        for severity, plural in _PLURALS.items()
        if counts[severity]
    ]
    return ", ".join(parts) or "nothing is wrong"
