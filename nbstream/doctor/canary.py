"""A canary: a message with a known answer, sent on the routes that mail takes.

Rules: one goes to the listener, and one to the mail server of this machine, where one answers: so what is wrong
behind nbstream is told from what is wrong in front of it. nbstream checks a canary like any message, calls it
spam, and delivers it to the given address whatever the actions are. It is neither learned nor remembered nor
counted, see ``Check.as_canary``. It is announced in the state folder, so that nobody else can send one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.doctor.connections import connect
from nbstream.doctor.examination import in_thread
from nbstream.filter.canaries import FOLDER, Canaries
from nbstream.findings import note, ok, problem, warning
from nbstream.listeners.milter import MILTER
from nbstream.listeners.smtp import LMTP, SMTP, begin_smtp, smtp_reply
from nbstream.mail.addresses import canonical_address
from nbstream.server.probe import Conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.addresses import ListenAddress
    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

NO_ROUTE = note(
    "canary",
    "No canary was sent: no listener that relays mail is enabled.",
    "Check a message by hand: nbstream check message.eml.",
)
NO_DAEMON = problem("canary", "No canary was sent: no daemon runs.", "Start the daemon.")
FEEDBACK_ADDRESS = problem(
    "canary",
    "No canary was sent: {address} is a feedback address, where it would be learned.",
    "Give the address of a mailbox.",
)
NOT_ANNOUNCED = problem(
    "canary",
    "No canary was sent: it cannot be announced to the daemon ({error}).",
    "Run this as the daemon's user.",
)
NOT_SENT = problem(
    "canary",
    "The canary could not be sent to {route}: {error}.",
    "See the finding about that listener and the daemon's log; with a milter, check that the mail server is "
    "running.",
)
REFUSED = problem(
    "canary",
    "The canary to {address} was refused by {route} at {command}: {reply}.",
    "Give an address that accepts mail, or fix what the reply names: see docs/guides/troubleshooting.md.",
)
NOT_CHECKED = problem(
    "canary",
    "The canary to {address} was accepted by {route}, but the daemon did not check it.",
    "Check the daemon's log for failed checks, and whether another program listens there.",
)
DELIVERED = ok(
    "canary",
    "The canary to {address} was checked and passed on by {route} in {milliseconds:.0f} ms; it is marked as spam.",
)
NO_MAIL_SERVER = note(
    "canary",
    "No mail server answers at {route}: whether mail reaches nbstream was not tested.",
    "If the mail server is on another machine, send a message from outside and look at its header.",
)
NOT_LED = warning(
    "canary",
    "The mail server at {route} accepted the canary to {address}, but it did not reach this daemon within "
    "{seconds:.0f} s.",
    "Check the mail server's configuration (docs/guides/troubleshooting.md), unless mail takes another route.",
)
LED = ok(
    "canary",
    "The canary to {address} arrived from the mail server at {route} within {milliseconds:.0f} ms; it is marked "
    "as spam.",
)

SECONDS = 60.0
"""The next hop may take its time; until then the examination waits."""
QUEUE_SECONDS = 30.0
"""So long a message may lie in the queue of a mail server that leads it to nbstream."""

_SUBJECT = "Canary of nbstream doctor"
_TEXT = """\
nbstream doctor has sent this message to see whether mail arrives and is marked.
It is marked as spam, whatever it contains. You can delete it.

{nonce}
"""
MAIL_SERVER = TcpAddress("127.0.0.1", 25)
_VERBS = {SMTP: "EHLO", LMTP: "LHLO"}
_POLL_SECONDS = 0.05


async def send_canary(site: Site, address: str, mail_server: TcpAddress | None = None) -> Sequence[Finding]:
    """Send canaries to ``address`` and say what became of them."""
    if site.daemon.pid is None:
        return [NO_DAEMON()]
    if canonical_address(address) in map(canonical_address, site.settings.feedback.addresses.values()):
        return [FEEDBACK_ADDRESS(address=address)]
    routes = find_routes(site, mail_server or MAIL_SERVER)
    if not routes:
        return [NO_ROUTE()]
    return await asyncio.gather(*(_send_by(route, site, address) for route in routes))


@dataclass(frozen=True, slots=True)
class MailRoute:
    """Where mail comes in: with EHLO or LHLO, and at once within TLS or not.

    ``is_direct``: a listener of ours is there, and not a mail server that is to lead mail to it. Mail may come on
    another route where this one is not ``is_needed``.
    """

    verb: str
    address: ListenAddress
    has_tls: bool = False
    is_direct: bool = True
    is_needed: bool = True

    def __str__(self) -> str:
        return str(self.address)


def find_routes(site: Site, mail_server: TcpAddress) -> list[MailRoute]:
    """Return the routes of mail: the first listener that passes it on, and the mail server."""
    listeners = site.settings.listeners
    routes = []
    for listener, verb in _VERBS.items():
        address = listener.listen_address(listeners)
        if address is not None:
            tls = getattr(listener.section(listeners), "tls", "off")
            routes.append(MailRoute(verb, address, has_tls=tls == "implicit"))
            break
    is_that_server = any(getattr(route.address, "port", 0) == mail_server.port for route in routes)
    if (routes or MILTER.is_on(listeners)) and not is_that_server:
        routes.append(MailRoute("EHLO", mail_server, is_direct=False, is_needed=not routes))
    return routes


async def _send_by(route: MailRoute, site: Site, address: str) -> Finding:
    raw = make_canary(address)
    key = make_message_reader(site.settings).read_incoming(raw).key
    canaries = Canaries(site.settings.state_dir / FOLDER)
    try:
        await in_thread(lambda: _announce(site, canaries, key))
    except OSError as error:
        return NOT_ANNOUNCED(error=error)
    started = time.perf_counter()
    try:
        refusal = await _send(route, address, raw)
        if refusal is None and not route.is_direct:
            await _wait_in_queue(canaries, key)
    except ConnectionRefusedError as error:
        return NOT_SENT(route=route, error=error) if route.is_needed else NO_MAIL_SERVER(route=route)
    except (OSError, EOFError, ValueError) as error:
        return NOT_SENT(route=route, error=str(error) or "no answer in time")
    finally:
        was_checked = not canaries.withdraw(key)
    if refusal is not None:
        return refusal
    seconds = time.perf_counter() - started
    checked, unchecked = (DELIVERED, NOT_CHECKED) if route.is_direct else (LED, NOT_LED)
    kind = checked if was_checked else unchecked
    return kind(address=address, route=route, milliseconds=1000 * seconds, seconds=seconds)


async def _wait_in_queue(canaries: Canaries, key: str) -> None:
    """Wait until the daemon has checked the message that a mail server has accepted, or for some time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(QUEUE_SECONDS):
            while canaries.waits(key):  # noqa: ASYNC110 - another process checks it
                await asyncio.sleep(_POLL_SECONDS)


def make_canary(address: str) -> bytes:
    """Return a new canary to ``address``, with CRLF line ends; no two are the same message."""
    nonce = secrets.token_hex(32)
    message = EmailMessage()
    message["From"] = "nbstream doctor <doctor@nbstream.invalid>"
    message["To"] = f"<{address}>"
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = f"<{nonce[:32]}@doctor.nbstream.invalid>"
    message["Subject"] = _SUBJECT
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody answers it
    message.set_content(_TEXT.format(nonce=nonce))
    return message.as_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _announce(site: Site, canaries: Canaries, key: str) -> None:
    # Root would follow whatever the daemon's user has put there, and make a folder that the daemon cannot enter.
    if site.daemon_user != os.geteuid():
        raise PermissionError("it is another user's state folder")
    canaries.remove_old()
    canaries.announce(key)


async def _send(route: MailRoute, address: str, raw: bytes) -> Finding | None:
    """Send the message; return the finding of a refusal. Raises ``OSError`` and ``EOFError``."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await connect(route.address, route.has_tls)
        try:
            conversation = Conversation("canary", route, reader, writer)
            refusal = await begin_smtp(conversation, route.verb)
            if refusal is not None:
                return REFUSED(address=address, route=route, command=route.verb, reply=refusal[:300])
            commands = {
                "MAIL": b"MAIL FROM:<>\r\n",
                "RCPT": f"RCPT TO:<{address}>\r\n".encode(),
                "DATA": b"DATA\r\n",
                "the end of the message": raw + b".\r\n",
            }
            for command, data in commands.items():
                conversation.send(data)
                reply = (await smtp_reply(conversation))[-1]
                if reply[:1] not in {"2", "3"}:
                    return REFUSED(address=address, route=route, command=command, reply=reply[:300])
            conversation.send(b"QUIT\r\n")
            return None
        finally:
            writer.close()
