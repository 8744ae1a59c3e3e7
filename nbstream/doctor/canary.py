"""A canary: a message with a known answer, sent on the way that mail takes.

Rules: nbstream checks it like any message, calls it spam, and delivers it to the given address whatever the
actions are. It is neither learned nor remembered nor counted, see ``Check.as_canary``. It is announced in the
state folder, so that nobody else can send one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.assembly.policy import make_message_reader
from nbstream.daemon.listeners import LISTENERS
from nbstream.doctor.examination import in_thread
from nbstream.doctor.listeners import connect
from nbstream.findings import note, ok, problem
from nbstream.listeners.milter import MILTER
from nbstream.listeners.smtp import LMTP, SMTP
from nbstream.listeners.smtp.probe import begin_smtp, smtp_reply
from nbstream.server.probe import Conversation
from nbstream.store.canaries import FOLDER, Canaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.addresses import ListenAddress
    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

NO_WAY = note(
    "canary",
    "No canary was sent: no listener is on that passes mail on.",
    "Check a message by hand, such as nbstream check message.eml.",
)
NO_DAEMON = problem("canary", "No canary was sent: no daemon runs.", "Start the daemon.")
FEEDBACK_ADDRESS = problem(
    "canary",
    "No canary was sent: {address} is a feedback address, at which it would be learned.",
    "Give the address of a mailbox.",
)
NOT_ANNOUNCED = problem(
    "canary",
    "No canary was sent: it cannot be announced to the daemon ({error}).",
    "Run this as the user of the daemon.",
)
NOT_SENT = problem(
    "canary",
    "The canary could not be sent to {way}: {error}.",
    "See the finding about that listener, and the log of the daemon.",
)
REFUSED = problem(
    "canary",
    "The canary to {address} was refused at {command}: {reply}.",
    "Give an address that the next hop takes, or mend what the reply names.",
)
NOT_CHECKED = problem(
    "canary",
    "The canary to {address} was accepted by {way}, and the daemon did not check it.",
    "See whether checks fail (the log of the daemon), and whether another program listens there.",
)
DELIVERED = ok(
    "canary",
    "The canary to {address} was checked and passed on by {way} in {milliseconds:.0f} ms; it is marked as spam.",
)

SECONDS = 60.0
"""The next hop may take its time; until then the examination waits."""

_SUBJECT = "Canary of nbstream doctor"
_TEXT = """\
nbstream doctor has sent this message to see whether mail arrives and is marked.
It is marked as spam, whatever it contains. You can delete it.

{nonce}
"""
_MAIL_SERVER = TcpAddress("127.0.0.1", 25)
_VERBS = {SMTP.name: "EHLO", LMTP.name: "LHLO", MILTER.name: "EHLO"}


async def send_canary(site: Site, address: str) -> Sequence[Finding]:
    """Send a canary to ``address`` and say what became of it."""
    settings = site.settings
    if site.daemon.pid is None:
        return [NO_DAEMON()]
    if address.lower() in {taken.lower() for taken in settings.feedback.addresses.values()}:
        return [FEEDBACK_ADDRESS(address=address)]
    way = find_way(site)
    if way is None:
        return [NO_WAY()]
    raw = make_canary(address)
    key = make_message_reader(settings).read_incoming(raw).key
    canaries = Canaries(settings.state_dir / FOLDER)
    try:
        await in_thread(lambda: _announce(site, canaries, key))
    except OSError as error:
        return [NOT_ANNOUNCED(error=error)]
    started = time.perf_counter()
    try:
        refusal = await _send(way, address, raw)
    except (OSError, EOFError, ValueError) as error:
        return [NOT_SENT(way=way, error=str(error) or "no answer in time")]
    finally:
        was_checked = not canaries.withdraw(key)
    if refusal is not None:
        return [refusal]
    milliseconds = 1000 * (time.perf_counter() - started)
    if not was_checked:
        return [NOT_CHECKED(address=address, way=way)]
    return [DELIVERED(address=address, way=way, milliseconds=milliseconds)]


@dataclass(frozen=True, slots=True)
class WayForMail:
    """Where mail comes in: with EHLO or LHLO, and at once within TLS or not."""

    verb: str
    address: ListenAddress
    has_tls: bool

    def __str__(self) -> str:
        return str(self.address)


def find_way(site: Site) -> WayForMail | None:
    """Return the first way for mail; a milter is reached by its mail server."""
    for listener in LISTENERS:
        if listener.name in _VERBS and listener.is_on(site.settings.listeners):
            address = listener.listen_address(site.settings.listeners)
            if listener is MILTER or address is None:
                return WayForMail(_VERBS[listener.name], _MAIL_SERVER, has_tls=False)
            tls = getattr(listener.section(site.settings.listeners), "tls", "off")
            return WayForMail(_VERBS[listener.name], address, has_tls=tls == "implicit")
    return None


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


async def _send(way: WayForMail, address: str, raw: bytes) -> Finding | None:
    """Send the message; return the finding of a refusal. Raises ``OSError`` and ``EOFError``."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await connect(way.address, way.has_tls)
        try:
            conversation = Conversation("canary", way, reader, writer)
            refusal = await begin_smtp(conversation, way.verb)
            if refusal is not None:
                return REFUSED(address=address, command=way.verb, reply=refusal[:300])
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
                    return REFUSED(address=address, command=command, reply=reply[:300])
            conversation.send(b"QUIT\r\n")
            return None
        finally:
            writer.close()
