"""``nbstream demo``: show the filter and its page with made-up mail, without anything to set up."""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import uvloop

from nbstream import logs
from nbstream.cli.interrupts import cancel_on
from nbstream.cli.terminal import print_note
from nbstream.demo.site import LESSONS, Delivery, Reports, run_site
from nbstream.logs import LogSettings
from nbstream.policy.verdict import shorten_probability


def run(options: argparse.Namespace) -> int:
    """Run until Ctrl-C, or for ``--messages`` messages; everything is removed at the end."""
    logs.set_up_logging(LogSettings(format="text", level="error"))
    print("A daemon, a private Redis and a page start in a temporary folder. Ctrl-C ends and removes all of it.")
    with suppress(asyncio.CancelledError):  # by a signal before the daemon has begun
        uvloop.run(_run_in_temporary_folder(options))
    print_note("the demo is over, and nothing is left of it")
    return 0


async def _run_in_temporary_folder(options: argparse.Namespace) -> None:
    cancel_on(signal.SIGINT, signal.SIGTERM)  # before there is a folder; then the daemon has handlers of its own
    with tempfile.TemporaryDirectory(prefix="nbstream-demo-") as folder:
        reports = Reports(_print_link, _print_delivery, _print_learned)
        await run_site(Path(folder), options.seed, options.pause, options.messages, reports)


def _print_link(link: str) -> None:
    print(f"\nThe page, by a link that can be used once, within ten minutes:\n\n  {link}\n", flush=True)


def _print_learned(number: int) -> None:
    if number == 1:
        print("At first the model knows nothing. People forward what they get to spam@ and ham@:", flush=True)
    if number % 10 == 0:
        print(f"  {number} of {LESSONS} messages learned", flush=True)
    if number == LESSONS:
        print(
            "\nNow mail flows, and people only correct mistakes. Nobody has said yet what the newsletters\n"
            "of news@gadgets.example are: open one on the page (Messages, Sender), say that it is spam or ham,\n"
            "and look at the next one.\n\n"
            "  verdict  P(spam)  from                         subject",
            flush=True,
        )


def _print_delivery(delivery: Delivery) -> None:
    mail, correction = delivery.mail, f"   (people say: {delivery.correction})" if delivery.correction else ""
    probability = shorten_probability(delivery.probability, 3)
    print(
        f"  {delivery.verdict:8} {probability:>7}  {mail.address:28.28} {mail.subject}{correction}",
        flush=True,
    )
