"""The milter listener, and one connection of it: a mail server's SMTP session, with any number of messages.

Rules:
- The filter asks for the steps that it needs: client, envelope, header, body. Only pieces of the body and the end
  of a message get a reply: these may refuse it.
- While a message is worked on, the mail server is told so every few seconds, and waits.
- Nothing is read meanwhile. Work that has begun is finished even if the mail server goes away: it may be a lesson.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from nbstream.listeners.milter.answers import MilterAnswers, MilterSender
from nbstream.listeners.milter.codec import (
    CONTINUE,
    PROGRESS,
    SKIP,
    MilterActions,
    MilterBody,
    MilterCommand,
    MilterEvent,
    MilterHeaderField,
    MilterMacros,
    MilterOptions,
    MilterParser,
    MilterStage,
    MilterSteps,
    MilterViolation,
    negotiation,
    refusal,
    without_ipv6_tag,
)
from nbstream.listeners.milter.message import MilterContent
from nbstream.server.connections import StreamConnection

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence

    from nbstream.server.message_service import MessageService
    from nbstream.server.runtime import Runtime


_log = logging.getLogger(__name__)

_READ_BYTES = 32 * 1024
_EVENTS_PER_STEP = 500  # to parse and to handle so many commands takes 2 ms
_MAX_TEXT_CHARACTERS = 1000  # of a macro or an address; those of real mail servers are much shorter

_ACTIONS = (
    MilterActions.ADDHDRS | MilterActions.CHGHDRS | MilterActions.SETSYMLIST | MilterActions.QUARANTINE
) | (MilterActions.ADDRCPT | MilterActions.DELRCPT)
_STEPS = (
    (MilterSteps.NOHELO | MilterSteps.NODATA | MilterSteps.NOEOH | MilterSteps.NOUNKNOWN)
    | (MilterSteps.NR_CONN | MilterSteps.NR_MAIL | MilterSteps.NR_RCPT | MilterSteps.NR_HDR)
    | (MilterSteps.HDR_LEADSPC | MilterSteps.SKIP)
)
_CLIENT, _USER, _RECIPIENT, _QUEUE_ID = "{client_addr}", "{auth_authen}", "{rcpt_addr}", "i"
_LETTERS_WITH_MACROS = frozenset(b"CMRE")
_MACROS = (_CLIENT, "", _USER, _RECIPIENT, "", _QUEUE_ID, "")


class _ProtocolBroken(Exception):
    """The mail server broke the protocol."""


class MilterSession(StreamConnection):
    """The session of one connection."""

    def __init__(
        self, listener: MilterListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(reader, writer)
        self._listener = listener
        self._parser = MilterParser()
        self._pending_bytes = 0
        self._options: MilterOptions | None = None
        self._client = self._user = self._queue_id = ""
        self._macros: dict[bytes, dict[str, str]] = {}
        self._message: MilterContent | None = None
        self._content_deadline = 0.0
        self._ended = False

    async def serve(self) -> None:
        """Serve until one side ends the connection. Raises nothing but cancellation."""
        try:
            while not self._ended and (data := await self._read()):
                await self._handle_all(self._parser.feed(data))
                self._count_pending_bytes(self._parser.pending_bytes)
                await asyncio.sleep(0)  # what is here already is read without a wait, and others want to run
        except TimeoutError:
            _log.info("milter: a mail server was idle for too long, or did not send a complete message in time")
            self.writer.transport.abort()
        except ConnectionError:
            _log.info("milter: a mail server went away")
        except _ProtocolBroken as broken:
            _log.warning("milter: a connection was closed: %s", broken)
        finally:
            self._drop_message()
            self._count_pending_bytes(0)
            self.writer.close()

    def close_if_idle(self) -> None:
        """Close the connection, for the daemon drains, unless a message is under way."""
        if self._message is None:
            self.writer.close()

    async def _read(self) -> bytes:
        seconds = self._listener.service.limits.idle_timeout_seconds
        if self._message and self._message.content_has_begun:
            seconds = min(seconds, self._content_deadline - asyncio.get_running_loop().time())
            if seconds <= 0:  # a read of what is here already does not wait, and would never time out
                raise TimeoutError
        async with asyncio.timeout(seconds):
            return await self.reader.read(_READ_BYTES)

    def _count_pending_bytes(self, count: int) -> None:
        """Count the bytes of an unfinished command among those in flight."""
        in_flight = self._listener.service.bytes_in_flight
        in_flight.release(self._pending_bytes)
        in_flight.reserve_anyway(count)
        self._pending_bytes = count

    async def _handle_all(self, events: Iterator[MilterEvent]) -> None:
        """Handle events up to the one that ends the session, and let others run in between."""
        for number, event in enumerate(events, start=1):
            await self._handle(event)
            if self._ended:
                return
            if number % _EVENTS_PER_STEP == 0:
                await asyncio.sleep(0)

    async def _handle(self, event: MilterEvent) -> None:
        if isinstance(event, MilterViolation):
            raise _ProtocolBroken(event.text)
        if isinstance(event, MilterOptions):
            await self._negotiate(event)
            return
        if self._options is None:
            raise _ProtocolBroken("a command came before the negotiation")
        answer = await self._replies(event, self._options)
        if self._options.wants_reply(event):
            await self._send(answer or [CONTINUE])
        if isinstance(event, MilterBody) and event.is_last:
            self._drop_message()
        self._ended |= self._listener.connections.draining and self._message is None

    async def _negotiate(self, offer: MilterOptions) -> None:
        self._drop_message()
        self._options = options = offer.agree(_ACTIONS, _STEPS)
        wants_macros = MilterActions.SETSYMLIST in options.actions
        await self._send([negotiation(options, _MACROS if wants_macros else ())])

    async def _replies(self, event: MilterEvent, options: MilterOptions) -> Sequence[bytes]:
        """Return the replies to a command; none stands for "continue"."""
        match event:
            case MilterHeaderField() | MilterBody():
                return await self._add_content(event, options)
            case MilterMacros():
                if event.letter[0] in _LETTERS_WITH_MACROS:
                    self._macros[event.letter] = _short_texts(event.values)
            case MilterCommand(MilterStage.CONNECT, (_, address)):
                self._client = _printable(without_ipv6_tag(self._macros_for(b"C").get(_CLIENT) or address))
            case MilterCommand(MilterStage.MAIL, (sender, *_)):
                self._begin_message(sender, options)
            case MilterCommand(MilterStage.RCPT, (recipient, *_)):
                self._add_recipient(recipient)
            case MilterCommand(MilterStage.ABORT):
                self._drop_message()
            case MilterCommand(MilterStage.QUIT | MilterStage.QUIT_NC):  # another SMTP client may follow
                self._drop_message()
                self._client = ""
                self._macros.clear()
                self._ended |= event.stage is MilterStage.QUIT
        return []

    async def _add_content(self, event: MilterHeaderField | MilterBody, options: MilterOptions) -> Sequence[bytes]:
        message = self._message_with_content()
        if isinstance(event, MilterHeaderField):
            message.add_field(event.name, event.value)
        else:
            message.add_body(event.content)
        if message.problem:
            self._parser.skips_header_fields = True  # of them there may be millions
            return [refusal(message.problem)]
        if isinstance(event, MilterBody) and event.is_last:
            self._note_queue_id(self._macros_for(b"E"))
            return await self._answer(message, options)
        return [SKIP] if message.is_full and MilterSteps.SKIP in options.steps else []

    def _macros_for(self, letter: bytes) -> dict[str, str]:
        """Return the macros that came for this command, which hold for no other one."""
        return self._macros.pop(letter, {})

    def _note_queue_id(self, macros: Mapping[str, str]) -> None:
        self._queue_id = _printable(macros.get(_QUEUE_ID, "")) or self._queue_id

    def _begin_message(self, sender: str, options: MilterOptions) -> None:
        self._drop_message()
        macros = self._macros_for(b"M")
        self._user = _printable(macros.get(_USER, ""))
        self._note_queue_id(macros)
        self._message = MilterContent(
            _address(sender),
            self._listener.service.limits.max_message_bytes,
            self._listener.service.bytes_in_flight,
            has_leading_space=MilterSteps.HDR_LEADSPC in options.steps,
        )

    def _add_recipient(self, given: str) -> None:
        if self._message is None:
            raise _ProtocolBroken("RCPT came before MAIL")
        # Postfix completes an address in the macro; Sendmail leaves only the user of a local one there.
        macros = self._macros_for(b"R")
        self._note_queue_id(macros)
        completed = macros.get(_RECIPIENT, "")
        self._message.add_recipient(completed if "@" in completed else _address(given), given)

    def _message_with_content(self) -> MilterContent:
        """Return the message that has content now; its time begins with the first of it."""
        message = self._message
        if message is None or not (message.recipients or message.problem):
            raise _ProtocolBroken("content came before MAIL and RCPT")
        if not message.content_has_begun:
            limits = self._listener.service.limits
            self._content_deadline = asyncio.get_running_loop().time() + limits.message_timeout_seconds
        return message

    def _drop_message(self) -> None:
        if self._message:
            self._message.release()
        self._message = None
        self._parser.skips_header_fields = False
        self._user = self._queue_id = ""

    async def _answer(self, message: MilterContent, options: MilterOptions) -> Sequence[bytes]:
        """Return the replies to the end of a message, and ask for patience meanwhile."""
        sender = MilterSender(self._client, self._user, self._queue_id)
        peer = self._listener.connections.peer_of(self.writer.transport)
        answer = asyncio.create_task(self._listener.answers.answer(message, sender, peer, options))
        try:
            while not (await asyncio.wait({answer}, timeout=self._listener.progress_seconds))[0]:
                with suppress(ConnectionError):
                    self._write(PROGRESS)
            return answer.result()
        finally:
            answer.cancel()
            await asyncio.wait({answer})

    async def _send(self, answer: Sequence[bytes]) -> None:
        self._write(b"".join(answer))
        async with asyncio.timeout(self._listener.service.limits.message_timeout_seconds):
            await self.writer.drain()

    def _write(self, data: bytes) -> None:
        """Write to an open connection. Raises ``ConnectionError``, where uvloop would raise a ``RuntimeError``."""
        if self.writer.is_closing():
            raise ConnectionResetError
        self.writer.write(data)


def _address(given: str) -> str:
    return given.removeprefix("<").removesuffix(">")


def _short_texts(macros: Mapping[str, str]) -> dict[str, str]:
    """Return the macros that are used, without any that is too long to be true."""
    used = {name: macros.get(name, "") for name in (_CLIENT, _USER, _RECIPIENT, _QUEUE_ID)}
    return {name: value for name, value in used.items() if value and len(value) <= _MAX_TEXT_CHARACTERS}


def _printable(text: str) -> str:
    """Return a text for logs and the history."""
    return "".join(char if char.isprintable() else "?" for char in text[:_MAX_TEXT_CHARACTERS])


PROGRESS_SECONDS = 5.0
"""The pause between two requests for patience; mail servers wait for minutes by default."""


_READ_LIMIT = 64 * 1024


class MilterListener:
    """Answers mail servers about their messages; ``answers`` is for the next message that is complete.

    ``progress_seconds`` is the pause between two requests for patience while a message is worked on.
    """

    def __init__(self, service: MessageService, progress_seconds: float = PROGRESS_SECONDS) -> None:
        self.service = service
        self.connections = service.connections()
        self.answers = MilterAnswers(service)
        self.progress_seconds = progress_seconds

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets.

        A client for which there is no room gets no answer: the protocol has no word for it before the negotiation,
        and the mail server does by its default action.
        """
        await self.connections.listen_with_streams(sockets, partial(MilterSession, self), _READ_LIMIT)

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` for the next message that is complete, on open connections too."""
        self.service.apply(runtime)
        self.answers = MilterAnswers(self.service)

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let messages under way finish within ``seconds``, then close what is left."""
        await self.connections.drain(seconds)
