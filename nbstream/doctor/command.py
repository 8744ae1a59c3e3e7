"""``nbstream doctor``: examine the installation and suggest remedies."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.daemon import config
from nbstream.daemon.status import DaemonStatus, ask_daemon_status
from nbstream.doctor import canary
from nbstream.doctor.connections import examine_listeners, examine_login_server, examine_next_hop
from nbstream.doctor.daemon import examine_configuration, examine_daemon, invalid_configuration
from nbstream.doctor.examination import Site, SiteCheck, in_thread, run_checks
from nbstream.doctor.machine import (
    examine_disks,
    examine_secrets,
    examine_spool,
    examine_state_folder,
    examine_user,
)
from nbstream.doctor.model import examine_lists, examine_model
from nbstream.doctor.redis_server import examine_redis
from nbstream.errors import ConfigError, NbstreamError
from nbstream.findings import Severity, without_repetitions, worst_severity
from nbstream.server.api_json import iso_time
from nbstream.terminal import is_styled, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbstream.daemon.config import Settings
    from nbstream.findings import Finding
    from nbstream.terminal import Output

CHECKS = (
    SiteCheck("config", examine_configuration),
    SiteCheck.blocking("permissions", examine_user),
    SiteCheck.blocking("permissions", examine_state_folder),
    SiteCheck.blocking("permissions", examine_secrets),
    SiteCheck("daemon", examine_daemon),
    SiteCheck("listeners", examine_listeners),
    SiteCheck("next_hop", examine_next_hop),
    SiteCheck("redis", examine_redis),
    SiteCheck("model", examine_model),
    SiteCheck("lists", examine_lists),
    SiteCheck("user_page", examine_login_server),
    SiteCheck.blocking("machine", examine_disks),
    SiteCheck.blocking("machine", examine_spool),
)
"""All checks, in the order in which their findings are shown."""

_EXIT_CODES = {Severity.PROBLEM: 4, Severity.WARNING: 3}
_COLOURS = {Severity.OK: "32", Severity.NOTE: "36", Severity.WARNING: "33", Severity.PROBLEM: "31"}
_PLURALS = {Severity.PROBLEM: "problems", Severity.WARNING: "warnings", Severity.NOTE: "notes"}


async def run(options: argparse.Namespace, output: Output) -> int:
    """Print the findings: 0 nothing is wrong, 3 warnings, 4 problems."""
    try:
        settings = config.load_settings(config.find_config_file(options.config))
        settings.own_models.read_aliases()
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
