"""``nbstream doctor``: examine the installation, and say what is wrong and what to do about it."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon import config
from nbstream.doctor.checks import examine
from nbstream.doctor.daemon import invalid_configuration
from nbstream.errors import ConfigError
from nbstream.findings import Severity, worst_severity
from nbstream.server.api_json import iso_time
from nbstream.terminal import is_styled, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbstream.findings import Finding
    from nbstream.terminal import Output

_EXIT_CODES = {Severity.PROBLEM: 4, Severity.WARNING: 3}
_COLOURS = {Severity.OK: "32", Severity.NOTE: "36", Severity.WARNING: "33", Severity.PROBLEM: "31"}
_PLURALS = {Severity.PROBLEM: "problems", Severity.WARNING: "warnings", Severity.NOTE: "notes"}


async def run(options: argparse.Namespace, output: Output) -> int:
    """Print the findings: 0 nothing is wrong, 3 warnings, 4 problems."""
    try:
        settings = config.load_settings(config.find_config_file(options.config))
    except ConfigError as error:
        findings = invalid_configuration(error)
    else:
        findings = await examine(settings, options.canary)
    members = {
        "version": __version__,
        "time": iso_time(time.time()),
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
    lines = list(describe_findings(findings, colours=is_styled(), quiet=options.quiet))
    output.show(lines, members, styled=True)
    return _EXIT_CODES.get(worst_severity(findings), 0)


def describe_findings(findings: tuple[Finding, ...], *, colours: bool, quiet: bool) -> Iterator[str]:
    """Yield a line for each finding, one for its remedy, and one that counts them.

    Where it is ``quiet``, only warnings and problems are shown, and nothing where there are none.
    """
    least = Severity.WARNING if quiet else Severity.OK
    shown = [finding for finding in findings if finding.severity.rank >= least.rank]
    width = max((len(finding.check) for finding in shown), default=0)
    for finding in shown:
        word = f"{finding.severity:<7}"
        word = f"\x1b[{_COLOURS[finding.severity]}m{word}\x1b[0m" if colours else word
        yield f"{word}  {finding.check:<{width}}  {printable(finding.what)}"
        if finding.remedy:
            yield f"{'':9}{'':{width}}  -> {finding.remedy}"
    if shown:
        counts = Counter(finding.severity for finding in shown)
        parts = [
            f"{counts[severity]} {plural if counts[severity] != 1 else severity}"
            for severity, plural in _PLURALS.items()
            if counts[severity]
        ]
        yield ", ".join(parts) or "nothing is wrong"
