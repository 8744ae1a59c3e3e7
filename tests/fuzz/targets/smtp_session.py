"""The SMTP and LMTP listeners: whatever a client sends, replies are well-formed, no mail is lost or doubled.

The SMTP listener has STARTTLS and no certificate: every handshake fails, and nothing that came before is
answered after.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import tempfile
from pathlib import Path

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.delivery.next_hop import DataReplies, SmtpPath, SmtpReply
from nbstream.delivery.quarantine import Quarantine
from nbstream.engine.choice import PYTHON
from nbstream.listeners.smtp.session import SmtpListener
from nbstream.listeners.smtp.settings import (
    LmtpListenerSettings,
    MailListenerSettings,
    SmtpListenerSettings,
    TlsMode,
)
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.settings import OWN_FIELD
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.store.model.memory_model import MemoryModel
from tests.fuzz.fuzzed_listener import FuzzedListener
from tests.fuzz.target import FuzzTarget
from tests.harness.memory_filter import memory_filter
from tests.harness.runtimes import LOOPBACK, make_runtime

_FOLDER = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
_HOSTNAME = "listener.example.org"
_MAX_BYTES = 1500
_REPLY_LINE = re.compile(rb"[2345]\d\d[ -][\x20-\x7e]*")
_TLS_READY = b"220 2.0.0 Ready to start TLS\r\n"
_TAKEN = re.compile(rb"(?m)^250 2\.0\.0 taken as (\d+)")


class _NextHop:
    """A next hop in memory, which takes every message for all recipients that have an at sign."""

    def __init__(self, *, answers_each_recipient: bool) -> None:
        self.answers_each_recipient = answers_each_recipient
        self.messages: list[bytes] = []
        self.open_transactions = 0

    async def features(self) -> frozenset[str]:
        return frozenset({"8BITMIME", "SMTPUTF8", "PIPELINING", "SIZE", "DSN"})

    async def begin(self, sender: SmtpPath) -> _Transaction:
        self.open_transactions += 1
        return _Transaction(self)

    async def problem(self) -> str | None:
        return None

    def read_authorities_again(self) -> None:
        """There are none."""

    async def close(self) -> None:
        """Nothing is open."""


class _Transaction:
    def __init__(self, next_hop: _NextHop) -> None:
        self._next_hop = next_hop
        self._recipient_count = 0

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        if "@" not in recipient.address:
            return SmtpReply(550, "5.1.1 no")
        self._recipient_count += 1
        return SmtpReply(250, "2.1.5 Ok")

    async def data(self, content: bytes, fields: bytes = b"") -> DataReplies:
        await self.abort()
        self._next_hop.messages.append(fields + content)
        reply = SmtpReply(250, f"2.0.0 taken as {len(self._next_hop.messages)}")
        return DataReplies((reply,) * (self._recipient_count if self._next_hop.answers_each_recipient else 1))

    async def abort(self) -> None:
        self._next_hop.open_transactions -= 1


class _Server:
    """A listener over a model in memory."""

    def __init__(self, runner: asyncio.Runner, name: str, section: MailListenerSettings) -> None:
        self.is_lmtp = name == "lmtp"
        self.next_hop = _NextHop(answers_each_recipient=self.is_lmtp)
        self.bytes_in_flight = BytesInFlight(4 * _MAX_BYTES)
        listener = SmtpListener(
            section,
            MessageService(
                name,
                make_runtime(
                    memory_filter(MemoryModel()), tls_contexts={"smtp": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}
                ),
                DaemonMetrics.create(PYTHON).delivery,
                ListenerLimits(_MAX_BYTES, idle_timeout_seconds=10),
                self.bytes_in_flight,
            ),
            self.next_hop,
            Quarantine(Path(_FOLDER.name)),
            _HOSTNAME,
            max_recipients=3,
        )
        self._connections = listener.connections
        self.fuzzed = FuzzedListener(runner, listener, self._wait_until_idle)

    async def _wait_until_idle(self) -> None:
        await self._connections.wait_closed()


_runner = asyncio.Runner()
_smtp = _Server(_runner, "smtp", SmtpListenerSettings.model_construct(trusted_proxies=LOOPBACK, tls=TlsMode.MAY))
_lmtp = _Server(_runner, "lmtp", LmtpListenerSettings.model_construct(trusted_proxies=LOOPBACK))


def _check(data: bytes) -> None:
    _check_server(_smtp, data)
    _check_server(_lmtp, data.replace(b"EHLO ", b"LHLO "))


def _check_server(server: _Server, data: bytes) -> None:
    next_hop = server.next_hop
    next_hop.messages.clear()
    replies = server.fuzzed.answer(data)
    said, _, _in_tls = replies.partition(_TLS_READY)
    lines = said.split(b"\r\n")
    assert lines.pop() == b""
    assert all(map(_REPLY_LINE.fullmatch, lines))
    taken = [int(number) for number in _TAKEN.findall(replies)]
    if replies:
        assert list(dict.fromkeys(taken)) == list(range(1, len(next_hop.messages) + 1))
        assert server.is_lmtp or len(taken) == len(next_hop.messages)
        # Each RCPT that was accepted has its reply, if the client waited for it: none is left out or doubled.
        accepted = lines.count(b"250 2.1.5 Ok")
        assert len(taken) <= accepted
    for message in next_hop.messages:
        assert normalize_line_ends(message) == message
        header = message.partition(b"\r\n\r\n")[0].lower()
        assert (b"\r\n" + header).count(b"\r\n%s:" % OWN_FIELD.lower().encode()) == 1
    assert next_hop.open_transactions == 0
    assert server.bytes_in_flight.reserve(4 * _MAX_BYTES)
    server.bytes_in_flight.release(4 * _MAX_BYTES)


_BEGIN = b"EHLO c\r\nMAIL FROM:<a@b> SIZE=100\r\nRCPT TO:<c@d>\r\nDATA\r\n"
_MESSAGE = b"Subject: prize\r\nX-Nbstream: ham; id=x\r\n\r\ntext\r\n..dot\r\n.\r\n"

TARGET = FuzzTarget(
    _check,
    (
        _BEGIN + _MESSAGE + b"MAIL FROM:<>\r\nRCPT TO:<x>\r\nRCPT TO:<c@d>\r\nDATA\r\n" + _MESSAGE + b"QUIT\r\n",
        b"EHLO c\r\nXFORWARD ADDR=192.0.2.1\r\nMAIL FROM:<a@b>\r\nRCPT TO:<spam@nbstream.invalid>\r\nDATA\r\n"
        + _MESSAGE,
        b"HELO c\r\nMAIL FROM:a@b\r\nRCPT TO:<c@d>\r\nDATA\r\n\r\n.\r\nRSET\r\nVRFY x\r\nNOOP\r\n",
        _BEGIN + b" first line\rlone\nends\r\n.\n.\r\n" + b"x" * 1600 + b"\r\n.\r\nQUIT\r\n",
        b"EHLO c\r\n"
        + b"A" * 5000
        + b"\r\nMAIL FROM:<a@b\r\nEHLO\r\nHELP\r\nAUTH PLAIN x\r\nSTARTTLS\r\n\xff\xfe\r\n",
        _BEGIN + b"half a message",
        b"EHLO c\r\nXFORWARD ADDR=192.0.2.1\r\nSTARTTLS\r\n",
        b"EHLO c\r\nSTARTTLS\r\nEHLO c\r\nMAIL FROM:<a@b>\r\n",
        b"EHLO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n" + _MESSAGE,
        b"",
    ),
    words=(
        *(
            b"MAIL FROM:<a@b>\r\n",
            b"RCPT TO:<c@d>\r\n",
            b"RCPT TO:<ham@nbstream.invalid>\r\n",
            b"DATA\r\n",
            b"\r\n.\r\n",
        ),
        *(
            b"RSET\r\n",
            b"QUIT\r\n",
            b"STARTTLS\r\n",
            b"LHLO c\r\n",
            b"XFORWARD ADDR=[UNAVAILABLE] SOURCE=LOCAL NAME=a+20b\r\n",
            b" XVERDICT",
            b"BDAT 5 LAST\r\n",
            b"EHLO c\r\n",
            b"\r\n..\r\n",
        ),
    ),
    mutations=150,
)
