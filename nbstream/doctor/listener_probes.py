"""One short conversation with a listener, in its own protocol.

Rules: a probe gets a connection, says as little as proves that the listener works, and changes nothing. It returns
the findings; ``OSError`` and ``EOFError`` mean that the listener does not do its work.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
from typing import TYPE_CHECKING

from nbstream.daemon.health import find_kind
from nbstream.findings import ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.findings import Finding

WRONG_ANSWER = problem(
    "listener.{name}",
    "listeners.{name} at {address} gives a wrong answer to {request}: {answer}.",
    "See whether another program listens at that address, and what the log of the daemon says.",
)
BUSY = warning(
    "listener.{name}",
    "listeners.{name} at {address} puts clients off: {answer}.",
    "Raise its max_connections, or see which client keeps so many connections open.",
)
WORKS = ok("listener.{name}", "listeners.{name} at {address} answers to {request}.")
DEGRADED = warning(
    "listener.{name}",
    "The daemon says that {part} is degraded: {text}.",
    "{remedy} All comes back by itself when the part does.",
    repeats=("{part}",),
)
NOT_READY = problem(
    "listener.{name}",
    "The daemon says that it is not ready for mail (/readyz).",
    "See what it says is degraded, and its log.",
    repeats=("next_hop", "redis", "model"),
)

_OTHER_REMEDY = "See the finding about that part."
_MAX_ANSWER_BYTES = 1 << 16
_MAX_REPLY_LINES = 100
_MILTER_VERSION, _MILTER_ACTIONS, _MILTER_STEPS = 6, 0x1FF, 0x1FFFFF  # what Postfix 3.7 offers


def unchecked_tls() -> ssl.SSLContext:
    """Return TLS without a check of the certificate: the listener is asked whether it works, not who it is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Conversation:
    """A connection to a listener, and the name and the address that findings give it."""

    def __init__(
        self, name: str, address: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = name
        self.address = address
        self._reader = reader
        self._writer = writer
        self.began_tls = False

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the listener (DER); None outside of TLS."""
        tls = self._writer.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) if tls else None

    async def start_tls(self) -> None:
        """Go on within TLS. Raises ``OSError`` where there is none."""
        await self._writer.start_tls(unchecked_tls())
        self.began_tls = True

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def receive(self, count: int) -> bytes:
        """Return exactly so many bytes. Raises ``EOFError``."""
        return await self._reader.readexactly(count)

    async def receive_line(self) -> str:
        """Return a line without its end. Raises ``EOFError`` where there is none."""
        line = await self._reader.readline()
        if not line:
            raise EOFError("it closed the connection")
        return line.decode("utf-8", "replace").rstrip("\r\n")

    async def receive_all(self) -> bytes:
        """Return all until the listener closes, at most ``_MAX_ANSWER_BYTES``."""
        data = b""
        while len(data) < _MAX_ANSWER_BYTES and (more := await self._reader.read(_MAX_ANSWER_BYTES)):
            data += more
        return data

    def works(self, request: str) -> list[Finding]:
        """Return the finding that all is well."""
        return [WORKS(name=self.name, address=self.address, request=request)]

    def wrong(self, request: str, answer: str) -> list[Finding]:
        """Return the finding that the answer is wrong."""
        shown = answer[:200] or "nothing"
        return [WRONG_ANSWER(name=self.name, address=self.address, request=request, answer=shown)]


async def probe_smtp(conversation: Conversation) -> Sequence[Finding]:
    """EHLO and QUIT."""
    return await _probe_smtp(conversation, "EHLO")


async def probe_lmtp(conversation: Conversation) -> Sequence[Finding]:
    """LHLO and QUIT."""
    return await _probe_smtp(conversation, "LHLO")


async def _probe_smtp(conversation: Conversation, verb: str) -> Sequence[Finding]:
    refusal = await begin_smtp(conversation, verb)
    if refusal is None:
        conversation.send(b"QUIT\r\n")
        refusal = (await smtp_reply(conversation))[-1]
        if refusal.startswith("221"):
            return conversation.works(f"{verb} and STARTTLS" if conversation.began_tls else verb)
    if refusal.startswith("421"):
        return [BUSY(name=conversation.name, address=conversation.address, answer=refusal)]
    return conversation.wrong(verb, refusal)


async def begin_smtp(conversation: Conversation, verb: str) -> str | None:
    """Read the greeting and say EHLO or LHLO, within TLS where that is offered; return a reply that refuses."""
    greeting = (await smtp_reply(conversation))[-1]
    if not greeting.startswith("220"):
        return greeting
    reply = await _say_hello(conversation, verb)
    if any(line[4:].upper() == "STARTTLS" for line in reply):
        conversation.send(b"STARTTLS\r\n")
        answer = (await smtp_reply(conversation))[-1]
        if not answer.startswith("220"):
            return answer
        await conversation.start_tls()
        reply = await _say_hello(conversation, verb)
    return None if reply[-1].startswith("250") else reply[-1]


async def _say_hello(conversation: Conversation, verb: str) -> list[str]:
    conversation.send(f"{verb} doctor.nbstream.invalid\r\n".encode())
    return await smtp_reply(conversation)


async def smtp_reply(conversation: Conversation) -> list[str]:
    """Return the lines of a reply; the last one decides."""
    lines = [await conversation.receive_line()]
    while lines[-1][:3].isdigit() and lines[-1][3:4] == "-":
        if len(lines) == _MAX_REPLY_LINES:
            raise ValueError("its reply has no end")
        lines.append(await conversation.receive_line())
    return lines


async def probe_http(conversation: Conversation) -> Sequence[Finding]:
    """Ask for ``/readyz``, and pass on what it says is degraded."""
    status, body = await _get(conversation, "/readyz")
    if status not in {200, 503}:
        return conversation.wrong("/readyz", f"status {status}")
    try:
        health = json.loads(body)
        is_ready, degraded = bool(health["ready"]), dict(health["degraded"])
    except (ValueError, TypeError, LookupError):
        return conversation.wrong("/readyz", body.decode("utf-8", "replace"))
    findings = conversation.works("/readyz") if is_ready else [NOT_READY(name=conversation.name)]
    return findings + [_degraded(conversation.name, part, str(text)) for part, text in degraded.items()]


def _degraded(name: str, part: str, text: str) -> Finding:
    kind = find_kind(part, text)
    remedy = kind.remedy if kind else _OTHER_REMEDY
    return DEGRADED(name=name, part=part, text=text, remedy=remedy)


async def probe_metrics(conversation: Conversation) -> Sequence[Finding]:
    """Ask for ``/metrics``."""
    status, body = await _get(conversation, "/metrics")
    if status != 200 or b"nbstream_" not in body:
        return conversation.wrong("/metrics", f"status {status}")
    return conversation.works("/metrics")


async def _get(conversation: Conversation, path: str) -> tuple[int, bytes]:
    """Return the status and the body of a GET; 0 for what is no HTTP."""
    conversation.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await conversation.receive_all()).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    is_http = len(words) == 3 and words[0].startswith(b"HTTP/1.") and words[1].isdigit()
    return (int(words[1]), body) if is_http else (0, body)


async def probe_spamd(conversation: Conversation) -> Sequence[Finding]:
    """PING."""
    conversation.send(b"PING SPAMC/1.5\r\n\r\n")
    answer = await conversation.receive_line()
    if answer.endswith(" 0 PONG"):
        return conversation.works("PING")
    return conversation.wrong("PING", answer)


async def probe_milter(conversation: Conversation) -> Sequence[Finding]:
    """Negotiate the options as a mail server does, and quit."""
    options = struct.pack("!cIII", b"O", _MILTER_VERSION, _MILTER_ACTIONS, _MILTER_STEPS)
    conversation.send(struct.pack("!I", len(options)) + options)
    (size,) = struct.unpack("!I", await conversation.receive(4))
    answer = await conversation.receive(min(size, 13))
    conversation.send(struct.pack("!Ic", 1, b"Q"))
    if size >= 13 and answer[:1] == b"O":
        return conversation.works("the negotiation of options")
    return conversation.wrong("the negotiation of options", repr(answer))


async def probe_connection(conversation: Conversation) -> Sequence[Finding]:
    """Say nothing: that the listener accepts connections is enough."""
    return conversation.works("a connection")
