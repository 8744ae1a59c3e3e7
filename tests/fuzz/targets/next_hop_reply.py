"""The replies of a next hop: whatever it says, the client gets a reply that is one, and no connection is lost.

The replies stand one behind the other with a NUL between them: the greeting, and one for each command. What comes
after a 3xx is one command, up to the final dot. In LMTP a reply to the message may be followed by others: they
stand together, and the server closes after them.
"""

from __future__ import annotations

import asyncio
import re

from nbstream.delivery.next_hop import SmtpPath, SmtpReply
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.errors import RelayRefused, RelayUnavailable
from tests.fuzz.target import FuzzTarget
from tests.harness.scripted import relay_at

_REPLY_LINE = re.compile(rb"\d{3}[ -][\x20-\x7e]*")
_COMPLETE = re.compile(rb"(?:\A|\n)\d{3}(?:[^-\d\n][^\n]*)?\n\Z")
_CONTENT = b"Subject: x\r\n\r\n.text\r\n"
_UNAVAILABLE = SmtpReply(451, "4.4.1 unavailable")
_RUNNER = asyncio.Runner()


def _check(data: bytes) -> None:
    for lmtp in (False, True):
        _RUNNER.run(_relay(data.split(b"\0"), lmtp=lmtp))


async def _relay(replies: list[bytes], *, lmtp: bool) -> None:
    left = iter(replies)
    contents: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            end, request = b"\r\n", b""
            for reply in left:
                writer.write(reply)
                if not _COMPLETE.search(reply) or (lmtp and contents):
                    break  # both sides would wait
                # The first digit of the last line decides (RFC 5321, section 4.3.2).
                is_go = reply.rstrip().rpartition(b"\n")[2].startswith(b"3")
                end = b"\r\n.\r\n" if is_go and request == b"DATA\r\n" else b"\r\n"
                request = await reader.readuntil(end)
                if end != b"\r\n":
                    contents.append(request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    next_hop = SmtpNextHop(relay_at(port, lmtp=lmtp, reply_timeout_seconds=10.0), max_connections=1)
    try:
        for _ in range(2):  # the second message may use the connection of the first one
            replies_to_client = await _send(next_hop, recipients=2 if lmtp else 1)
            for reply in replies_to_client:
                assert all(map(_REPLY_LINE.fullmatch, reply.render().split(b"\r\n")))
            if any(reply.accepted for reply in replies_to_client):
                assert contents.pop() == _CONTENT.replace(b"\r\n.", b"\r\n..") + b".\r\n"
        assert await next_hop.features()
    finally:
        await next_hop.close()
        server.close()


async def _send(next_hop: SmtpNextHop, recipients: int) -> tuple[SmtpReply, ...]:
    """Return the replies for the recipients that were accepted; one reply where there is none of them."""
    try:
        transaction = await next_hop.begin(SmtpPath("a@b", ("SIZE=10",)))
    except RelayRefused as refusal:
        return (SmtpReply(refusal.code, refusal.text),)
    except RelayUnavailable:
        return (_UNAVAILABLE,)
    try:
        answers = [await transaction.rcpt(SmtpPath(address)) for address in ("c@d", "e@f")[:recipients]]
        if count := sum(reply.accepted for reply in answers):
            return (await transaction.data(_CONTENT)).per_recipient(count)
    except RelayUnavailable:
        return (_UNAVAILABLE,)
    await transaction.abort()
    return tuple(answers)


_EHLO = b"220 server ESMTP\r\n\0" + b"250-server\r\n250-PIPELINING\r\n250 SIZE 1000\r\n\0"
_LMTP = _EHLO + b"250 2.1.0 Ok\r\n\0" + b"250 2.1.5 Ok\r\n\0" * 2 + b"354 go\r\n\0"

TARGET = FuzzTarget(
    _check,
    (
        _EHLO + b"250 2.1.0 Ok\r\n\0" + b"250 2.1.5 Ok\r\n\0" + b"354 go\r\n\0" + b"250 2.0.0 taken\r\n\0"
        b"250 Ok\r\n\0" + b"550 5.1.1 no\r\n\0" + b"250 Ok\r\n",
        _EHLO + b"250 2.1.0 Ok\r\n250 twice\r\n\0" + b"421 4.3.2 closing\r\n",
        _EHLO
        + b"250 Ok\r\n\0"
        + b"250-a\r\n250-\x1b[2J\xff\r\n250 b\r\n\0"
        + b"554 5.5.1 no\r\n\0"
        + b"250 Ok\r\n",
        _EHLO + b"250\r\n\0" + b"250 x\n\0" + b"354-go\r\n354 on\r\n\0" + b"552-5.3.4 a\r\n552 5.3.4 b\r\n",
        _LMTP + b"250-2.0.0 saved\r\n250 2.0.0 here\r\n452 4.2.2 full\r\n\0" + b"250 Ok\r\n",
        _LMTP + b"250 2.0.0 saved\r\n421 4.3.2 closing\r\n",
        _LMTP + b"250 2.0.0 saved\r\n250 2.0.0 sa",
        _LMTP + b"250 a\r\n250 b\r\n250 c\r\n",
        b"554 no service\r\n",
        b"220 server\r\n\0" + b"502 what\r\n\0" + b"250 server\r\n\0" + b"99 x\r\n\0" + b"abc\r\n",
        b"220 \r\n\0" + b"250-" + b"x" * 2000 + b"\r\n250 y\r\n",
    ),
    words=(
        b"\0353 go\r\n",
        b"\0",
        b"\r\n\0",
        b"250 ",
        b"250-",
        b"354 ",
        b"421 ",
        b"550 ",
        b"\r\n",
        b"\n",
        b"999 ",
        b"200 ",
    ),
    max_bytes=3000,
    mutations=150,
)
