"""``nbstream demo``: show the filter and its page with made-up mail, without anything to set up.

Rules: a daemon with a private Redis, people and mail are on this machine, at ports that the system chooses, and in
one folder that is removed at the end. People label what comes until the model can decide. Then they correct its
mistakes, except newsletters: those wait for whoever looks at the page.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import smtplib
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nbstream import logs
from nbstream.addresses import TcpAddress
from nbstream.daemon.config import make_settings
from nbstream.daemon.daemon import Daemon
from nbstream.daemon.listeners import HTTP
from nbstream.daemon.status import create_page_link, link_url
from nbstream.demo.mail import RECIPIENT, DemoMail, all_mail, labelled_mail
from nbstream.interrupts import cancel_on
from nbstream.listeners.smtp import SMTP
from nbstream.logs import LogSettings
from nbstream.policy.verdict import shorten_probability
from nbstream.store.cancellation import cancel_and_wait
from nbstream.terminal import print_note

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.daemon.sockets import ListenAddresses
    from nbstream.terminal import Output

LESSONS = 60
"""So many messages are labelled before mail flows, half of them spam, as it happens."""

MIN_LEARNED = 20
_LESSON_SECONDS = 0.05
_TIMEOUT_SECONDS = 30.0
_TAKEN = 250


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
    with tempfile.TemporaryDirectory(prefix="nbstream-demo-") as folder:
        await _run_site(demo_settings(Path(folder)), options, output)


def demo_settings(folder: Path) -> Settings:
    """Return the settings of a site in ``folder``; the ports are chosen by the system."""
    return make_settings(
        {
            "state_dir": str(folder),
            "listeners": {"smtp": {"listen": "127.0.0.1:0"}, "http": {"listen": "127.0.0.1:0"}},
            "model": {"min_learned": MIN_LEARNED},
            "actions": {"spam": "quarantine"},
            "log": {"level": "error"},
        }
    )


async def _run_site(settings: Settings, options: argparse.Namespace, output: Output) -> None:
    """Run the site until a signal comes, or until ``--messages`` have flowed. Raises what starts of it raise."""
    daemon = Daemon(settings)
    flows: list[asyncio.Task[None]] = []

    def ready(addresses: ListenAddresses) -> None:
        flow = asyncio.create_task(_flow(settings, addresses, options, output))
        flow.add_done_callback(lambda _: daemon.stop())
        flows.append(flow)

    try:
        await daemon.run(ready)
    finally:
        for flow in flows:
            await cancel_and_wait(flow)
    for flow in flows:
        if not flow.cancelled():
            with suppress(OSError, smtplib.SMTPException):  # the daemon drains, and takes no more mail
                flow.result()


async def _flow(
    settings: Settings, addresses: ListenAddresses, options: argparse.Namespace, output: Output
) -> None:
    smtp = addresses[SMTP.name]
    assert isinstance(smtp, TcpAddress)
    link = link_url(addresses[HTTP.name], await create_page_link(settings, "teach", "demo"))
    output.show(["", "The page, by a link that can be used once, within ten minutes:", "", f"  {link}", ""])
    people = People(settings, smtp)
    try:
        for number, mail in zip(range(1, LESSONS + 1), labelled_mail(options.seed), strict=False):
            await people.label(mail)
            output.show(_describe_learned(number))
            await asyncio.sleep(min(_LESSON_SECONDS, options.pause))
        numbers = count() if options.messages is None else range(options.messages)
        for _, mail in zip(numbers, all_mail(options.seed), strict=False):
            output.show(await people.receive(mail))
            await asyncio.sleep(options.pause)
    finally:
        await asyncio.to_thread(people.leave)


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


class People:
    """The people of the site: their mail comes by SMTP, and they forward mistakes to the feedback addresses."""

    def __init__(self, settings: Settings, smtp: TcpAddress) -> None:
        self._address = smtp
        self._feedback = {"spam": settings.feedback.spam_address, "ham": settings.feedback.ham_address}
        self._connection: smtplib.SMTP | None = None

    async def label(self, mail: DemoMail) -> None:
        """Say what a message is that came before there was a filter."""
        assert mail.label is not None
        await asyncio.to_thread(self._send, mail, self._feedback[mail.label])

    async def receive(self, mail: DemoMail) -> str:
        """Receive a message, correct its verdict where people agree that it is wrong, and return a line on it."""
        reply = await asyncio.to_thread(self._send, mail, RECIPIENT)
        values = dict(word.split("=", 1) for word in reply.split() if "=" in word)
        verdict, correction = values["verdict"], ""
        if mail.label is not None and verdict not in {mail.label, "unsure"}:
            await asyncio.to_thread(self._send, mail, self._feedback[mail.label])
            correction = f"   (people say: {mail.label})"
        probability = shorten_probability(float(values["probability"]), 3)
        return f"  {verdict:8} {probability:>7}  {mail.address:28.28} {mail.subject}{correction}"

    def _send(self, mail: DemoMail, recipient: str) -> str:
        if self._connection is None:
            self._connection = smtplib.SMTP(self._address.host, self._address.port, timeout=_TIMEOUT_SECONDS)
            self._connection.ehlo("demo.nbstream.invalid")
        self._connection.mail(mail.address, ["XVERDICT"])
        self._connection.rcpt(recipient)
        code, text = self._connection.data(mail.raw)
        if code != _TAKEN:
            raise smtplib.SMTPDataError(code, text)
        return text.decode("utf-8", "replace")

    def leave(self) -> None:
        """Close the connection."""
        if self._connection:
            with suppress(OSError, smtplib.SMTPException):
                self._connection.quit()
