"""Sites to examine, and their findings by kind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from nbstream.daemon.config import load_settings
from nbstream.daemon.status import DaemonStatus
from nbstream.doctor.examination import Site
from nbstream.findings import Finding
from tools.reference.findings import finding_kinds

NO_DAEMON = DaemonStatus(None)


def make_site(folder: Path, text: str = "", daemon: DaemonStatus = NO_DAEMON) -> Site:
    """The site of a configuration file in ``folder``, whose state folder is there too."""
    file = folder / "nbstream.yaml"
    file.write_text(f"state_dir: {folder / 'state'}\n{text}")
    return Site(load_settings(file), daemon)


def is_of(finding: Finding, kind: Finding) -> bool:
    """Whether the finding has the severity and the sentences of the kind."""
    return finding.severity is kind.severity and all(
        re.fullmatch(_pattern(template), text, re.DOTALL)
        for template, text in (
            (kind.check, finding.check),
            (kind.what, finding.what),
            (kind.remedy, finding.remedy),
        )
    )


def _pattern(template: str) -> str:
    return ".*".join(map(re.escape, re.split(r"\{[^}]*\}", template)))


def the(findings: Iterable[Finding], kind: Finding) -> Finding:
    """The one finding of that kind."""
    listed = list(findings)
    found = [finding for finding in listed if is_of(finding, kind)]
    assert len(found) == 1, listed
    return found[0]


def wrong(findings: Iterable[Finding]) -> list[Finding]:
    """The warnings and problems."""
    return [finding for finding in findings if finding.severity.rank >= 2]


def kind_names(findings: Iterable[Finding]) -> set[str]:
    """The names of the kinds that the findings are of."""
    kinds = finding_kinds()
    return {name for finding in findings for name, kind in kinds.items() if is_of(finding, kind)}
