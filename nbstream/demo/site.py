"""A site for a look around: a daemon with a private Redis in a temporary folder, people, and mail that flows.

Rules: everything is on this machine, at ports that the system chooses, and in one folder that the caller removes.
People label what comes until the model can decide. Then they correct its mistakes, except newsletters: those wait
for whoever looks at the page.
"""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.daemon.config import make_settings
from nbstream.daemon.daemon import Daemon
from nbstream.daemon.listeners import HTTP
from nbstream.daemon.page_links import create_page_link, link_url
from nbstream.demo.mail import RECIPIENT, DemoMail, all_mail, labelled_mail
from nbstream.listeners.smtp import SMTP
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.daemon.sockets import ListenAddresses

LESSONS = 60
"""So many messages are labelled before mail flows, half of them spam, as it happens."""

MIN_LEARNED = 20
_LESSON_SECONDS = 0.05
_TIMEOUT_SECONDS = 30.0
_TAKEN = 250


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that went through the daemon, with its verdict and P(spam) as the reply has them.

    ``correction`` is the label that people gave it afterwards, None where they left it as it was.
    """

    mail: DemoMail
    verdict: str
    probability: float
    correction: str | None


@dataclass(frozen=True, slots=True)
class Reports:
    """What is called while the demo runs: with the link to the page, with each message, and with the state."""

    link: Callable[[str], object]
    delivery: Callable[[Delivery], object]
    learned: Callable[[int], object]


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


async def run_site(folder: Path, seed: int, pause_seconds: float, messages: int | None, reports: Reports) -> None:
    """Run the site in ``folder`` until a signal comes, or until ``messages`` have flowed where that is given.

    ``pause_seconds`` is the time between two messages. Raises what starts of the daemon raise.
    """
    settings = demo_settings(folder)
    daemon = Daemon(settings)
    flows: list[asyncio.Task[None]] = []

    def ready(addresses: ListenAddresses) -> None:
        flow = asyncio.create_task(_flow(settings, addresses, seed, pause_seconds, messages, reports))
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
    settings: Settings,
    addresses: ListenAddresses,
    seed: int,
    pause_seconds: float,
    messages: int | None,
    reports: Reports,
) -> None:
    http, smtp = addresses[HTTP.name], addresses[SMTP.name]
    assert isinstance(smtp, TcpAddress)
    reports.link(link_url(http, await create_page_link(settings, "teach", "demo")))
    people = People(settings, smtp)
    try:
        for number, mail in zip(range(LESSONS), labelled_mail(seed), strict=False):
            await people.label(mail)
            reports.learned(number + 1)
            await asyncio.sleep(min(_LESSON_SECONDS, pause_seconds))
        for _, mail in zip(count() if messages is None else range(messages), all_mail(seed), strict=False):
            reports.delivery(await people.receive(mail))
            await asyncio.sleep(pause_seconds)
    finally:
        await asyncio.to_thread(people.leave)


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

    async def receive(self, mail: DemoMail) -> Delivery:
        """Receive a message, and correct its verdict where people agree that it is wrong."""
        reply = await asyncio.to_thread(self._send, mail, RECIPIENT)
        values = dict(word.split("=", 1) for word in reply.split() if "=" in word)
        verdict, probability = values["verdict"], float(values["probability"])
        is_wrong = mail.label is not None and verdict not in {mail.label, "unsure"}
        if is_wrong and mail.label:
            await asyncio.to_thread(self._send, mail, self._feedback[mail.label])
        return Delivery(mail, verdict, probability, mail.label if is_wrong else None)

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
