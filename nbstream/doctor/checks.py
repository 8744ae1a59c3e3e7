"""The table of all checks, in the order in which their findings are shown; the findings as text and as JSON."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from nbstream.daemon.status import DaemonStatus, ask_daemon_status
from nbstream.doctor import canary
from nbstream.doctor.connections import examine_listeners, examine_login_server, examine_next_hop
from nbstream.doctor.daemon import examine_configuration, examine_daemon
from nbstream.doctor.examination import Site, SiteCheck, in_thread, run_checks
from nbstream.doctor.machine import examine_machine
from nbstream.doctor.model import examine_lists, examine_model
from nbstream.doctor.permissions import examine_permissions
from nbstream.doctor.redis_server import examine_redis
from nbstream.errors import NbstreamError
from nbstream.findings import Severity, without_repetitions, worst_severity
from nbstream.server.api_json import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.daemon.config import Settings
    from nbstream.findings import Finding

_COLOURS = {Severity.OK: "32", Severity.NOTE: "36", Severity.WARNING: "33", Severity.PROBLEM: "31"}
_PLURALS = {Severity.PROBLEM: "problems", Severity.WARNING: "warnings", Severity.NOTE: "notes"}

CHECKS = (
    SiteCheck("config", examine_configuration),
    SiteCheck("permissions", examine_permissions),
    SiteCheck("daemon", examine_daemon),
    SiteCheck("listeners", examine_listeners),
    SiteCheck("next_hop", examine_next_hop),
    SiteCheck("redis", examine_redis),
    SiteCheck("model", examine_model),
    SiteCheck("lists", examine_lists),
    SiteCheck("user_page", examine_login_server),
    SiteCheck("machine", examine_machine),
)


async def examine(settings: Settings, canary_address: str | None = None) -> tuple[Finding, ...]:
    """Examine the site of these settings, and send a canary where it has an address."""
    daemon, unknown = DaemonStatus(None), ""
    try:
        daemon = await in_thread(lambda: ask_daemon_status(settings.state_dir))
    except NbstreamError as error:
        unknown = str(error).rstrip(".")
    checks = list(CHECKS)
    if canary_address is not None:
        send = partial(canary.send_canary, address=canary_address)
        checks.append(SiteCheck("canary", send, canary.SECONDS + canary.QUEUE_SECONDS + 5))
    return without_repetitions(await run_checks(Site(settings, daemon, unknown), checks))


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
