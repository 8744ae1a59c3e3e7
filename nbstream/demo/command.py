"""``nbstream demo``: show the filter and its page with made-up mail, without anything to set up."""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nbstream import logs
from nbstream.demo.site import LESSONS, Delivery, Reports, run_site
from nbstream.interrupts import cancel_on
from nbstream.logs import LogSettings
from nbstream.policy.verdict import shorten_probability
from nbstream.terminal import print_note

if TYPE_CHECKING:
    from nbstream.terminal import Output


def run(options: argparse.Namespace, output: Output) -> None:
    """Run until Ctrl-C, or for ``--messages`` messages; everything is removed at the end."""
    logs.set_up_logging(LogSettings(format="text", level="error"))
    output.show(
        "A daemon, a private Redis and a page start in a temporary folder. Ctrl-C ends and removes all of it."
    )
    with suppress(asyncio.CancelledError):  # by a signal before the daemon has begun
        uvloop.run(_run_in_temporary_folder(options, output))
    print_note("the demo is over, and nothing is left of it")


async def _run_in_temporary_folder(options: argparse.Namespace, output: Output) -> None:
    cancel_on(signal.SIGINT, signal.SIGTERM)  # before there is a folder; then the daemon has handlers of its own
    reports = Reports(
        lambda link: output.show(
            ["", "The page, by a link that can be used once, within ten minutes:", "", f"  {link}", ""]
        ),
        lambda delivery: output.show(_describe_delivery(delivery)),
        lambda number: output.show(_describe_learned(number)),
    )
    with tempfile.TemporaryDirectory(prefix="nbstream-demo-") as folder:
        await run_site(Path(folder), options.seed, options.pause, options.messages, reports)


def _describe_learned(number: int) -> list[str]:
    """Return what is said after so many lessons."""
    lines = []
    if number == 1:
        lines.append("At first the model knows nothing. People forward what they get to spam@ and ham@:")
    if number % 10 == 0:
        lines.append(f"  {number} of {LESSONS} messages learned")
    if number == LESSONS:
        lines += [
            "",
            "Now mail flows, and people only correct mistakes. Nobody has said yet what the newsletters",
            "of news@gadgets.example are: open one on the page (Messages, Sender), say that it is spam or ham,",
            "and look at the next one.",
            "",
            "  verdict  P(spam)  from                         subject",
        ]
    return lines


def _describe_delivery(delivery: Delivery) -> str:
    mail, correction = delivery.mail, f"   (people say: {delivery.correction})" if delivery.correction else ""
    probability = shorten_probability(delivery.probability, 3)
    return f"  {delivery.verdict:8} {probability:>7}  {mail.address:28.28} {mail.subject}{correction}"
