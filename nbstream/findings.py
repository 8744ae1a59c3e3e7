"""Findings: what was found, how bad it is, and what to do about it.

Rules: the sentences of all kinds of findings are data, so that the handbook lists them and a test knows
them. A sentence says what was found; a remedy says what to do, and is empty if no action is needed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad a finding is, the mildest first.

    ``ok`` and ``note`` need nobody; a ``warning`` will hurt some day, or hurts little; a ``problem`` hurts now.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def rank(self) -> int:
        """The position in the order, 0 for the mildest."""
        return list(Severity).index(self)


class Finding(NamedTuple):
    """One thing that was found. ``check`` is the dotted name of what was examined, such as ``redis.memory``.

    A kind of finding has ``{name}`` in its texts, where values stand once they are known. ``repeats`` are the
    checks, or the first parts of their names, that say the same in more detail: where one of them finds a problem,
    this finding is left out.
    """

    check: str
    severity: Severity
    what: str
    remedy: str = ""
    repeats: tuple[str, ...] = ()

    def __call__(self, **values: object) -> Finding:
        """Return the finding of this kind with these values. Raises ``KeyError`` where one is missing."""
        texts = (self.check, self.what, self.remedy, *self.repeats)
        check, what, remedy, *repeats = (text.format(**values) for text in texts)
        return Finding(check, self.severity, what, remedy, tuple(repeats))


def ok(check: str, what: str) -> Finding:
    """Return the kind of a finding that all is well."""
    return Finding(check, Severity.OK, what)


def note(check: str, what: str, remedy: str = "") -> Finding:
    """Return the kind of a finding that somebody may want to know."""
    return Finding(check, Severity.NOTE, what, remedy)


def warning(check: str, what: str, remedy: str, repeats: tuple[str, ...] = ()) -> Finding:
    """Return the kind of a finding that is to be mended some day."""
    return Finding(check, Severity.WARNING, what, remedy, repeats)


def problem(check: str, what: str, remedy: str, repeats: tuple[str, ...] = ()) -> Finding:
    """Return the kind of a finding that is to be mended now."""
    return Finding(check, Severity.PROBLEM, what, remedy, repeats)


def without_repetitions(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings without those that another one says in more detail."""
    problems = {finding.check for finding in findings if finding.severity is Severity.PROBLEM}
    return tuple(
        finding
        for finding in findings
        if not any(check == name or check.startswith(f"{name}.") for check in problems for name in finding.repeats)
    )


def worst_severity(findings: tuple[Finding, ...]) -> Severity:
    """Return the worst of the findings, ``ok`` where there are none."""
    return max((finding.severity for finding in findings), key=lambda severity: severity.rank, default=Severity.OK)
