"""``nbstream doctor``: examine the site, and say what is wrong and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.cli import interrupts
from nbstream.cli.exit_codes import EX_PROBLEMS, EX_WARNINGS
from nbstream.cli.terminal import printable
from nbstream.daemon import config
from nbstream.doctor.checks import examine, findings_to_json, render_text
from nbstream.doctor.daemon import invalid_configuration
from nbstream.errors import ConfigError
from nbstream.findings import Severity, worst_severity

if TYPE_CHECKING:
    from nbstream.findings import Finding

_EXIT_CODES = {Severity.PROBLEM: EX_PROBLEMS, Severity.WARNING: EX_WARNINGS}


def run(options: argparse.Namespace) -> int:
    """Print the findings: 0 nothing is wrong, 3 warnings, 4 problems."""
    findings = _examine(options)
    if options.json:
        print(json.dumps(findings_to_json(findings, __version__, time.time())))
    else:
        colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        for line in render_text(_printable(findings), colours=colours, quiet=options.quiet):
            print(line)
    return _EXIT_CODES.get(worst_severity(findings), 0)


def _examine(options: argparse.Namespace) -> tuple[Finding, ...]:
    try:
        settings = config.load_settings(config.find_config_file(options.config))
    except ConfigError as error:
        return invalid_configuration(error)
    return interrupts.run_interruptible(examine(settings, options.canary))


def _printable(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings for a terminal: what servers answered may be in them."""
    return tuple(replace(finding, what=printable(finding.what)) for finding in findings)
