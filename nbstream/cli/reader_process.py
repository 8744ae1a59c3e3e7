"""The messages of a command line, read and taken apart in a process beside the one that teaches them.

Rules: the process is forked while there is neither a loop nor a thread nor a connection, so that it shares none;
it reads, and writes to a pipe. It is ahead by what the pipe holds and one chunk. Ctrl-C is for the parent, which
ends the other at its own end, whatever that one does then; where the parent is killed, the pipe tells it, also
while it waits for something to read. Where threads run already nothing is forked: a lock that one of them holds
would be held for ever. Nor is anything where the system allows no process more.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import threading
import traceback
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from nbstream.cli import message_files, message_lists
from nbstream.cli.exit_codes import EX_SOFTWARE
from nbstream.errors import InputError, ReaderProcessFailed, ReaderProcessFault
from nbstream.filter import TokenizedMessage
from nbstream.policy.incoming_message import incoming_message
from nbstream.store.cancellation import stop_if_cancelled

if TYPE_CHECKING:
    from nbstream.cli.message_files import NamedMessage
    from nbstream.mail.message import Message
    from nbstream.mail.mime import MessageLimits
    from nbstream.tokens.tokenizer import Tokenizer

_MESSAGES_PER_CHUNK = 16  # messages: written and read with 1 % of what it takes to take them apart
_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True)
class BareText:
    """A message without the header of a mail: it may be a text, or a file that is no message at all."""

    name: str
    message_key: str


@dataclass(frozen=True, slots=True)
class MessageChunk:
    """Some messages in order, which of them are bare texts, and what could not be read on the way to them.

    ``last`` is true for the chunk after which nothing comes.
    """

    messages: Sequence[TokenizedMessage]
    bare_texts: Sequence[BareText]
    errors: Sequence[InputError]
    last: bool


def read_chunks(
    paths: Sequence[str], label: str | None, tokenizer: Tokenizer, limits: MessageLimits
) -> Iterator[MessageChunk]:
    """Yield the messages of all paths, as ``message_files.read_messages`` reads them.

    ``label`` is the class that they are learned into: a list of messages is an error then. None stands for
    unlearning, which takes back whatever an older version has learned.
    """
    errors: list[InputError] = []
    messages: list[TokenizedMessage] = []
    bare_texts: list[BareText] = []
    for source in message_files.read_messages(paths, errors):
        try:
            message = _parse_message(source, label, limits)
        except InputError as error:
            errors.append(error)
            continue
        messages.append(TokenizedMessage(message.key, tokenizer.tokenize(message), message.former_key))
        if not message.is_mail:
            bare_texts.append(BareText(source.name, message.key))
        if len(messages) == _MESSAGES_PER_CHUNK:
            yield MessageChunk(tuple(messages), tuple(bare_texts), tuple(errors), last=False)
            for items in (messages, bare_texts, errors):
                items.clear()
    yield MessageChunk(tuple(messages), tuple(bare_texts), tuple(errors), last=True)


def _parse_message(source: NamedMessage, label: str | None, limits: MessageLimits) -> Message:
    """Return the message. Raises ``InputError`` for a list that was to be learned."""
    if label is not None:
        message_lists.refuse_list(source, label)
    return incoming_message(source.raw, limits)


@contextmanager
def in_own_process(made: Iterator[MessageChunk]) -> Iterator[AsyncGenerator[MessageChunk, None]]:
    """The same chunks, made by a process of their own, which is gone at the end.

    Raises, while they are asked for, ``ReaderProcessFault`` where it fails, ``ReaderProcessFailed`` where others
    end it.
    """
    if threading.active_count() > 1:
        yield _in_this_process(made)
        return
    reading, writing = os.pipe()
    child = _fork_reader()
    if child == 0:
        os.close(reading)
        _write_to_pipe(made, writing)
    os.close(writing)
    if child is None:
        os.close(reading)
        yield _in_this_process(made)
        return
    try:
        with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor has no path
            yield _read_from_pipe(pipe, child)
    finally:
        os.kill(child, signal.SIGKILL)  # if it has ended, it still has its number
        os.waitpid(child, 0)


def _fork_reader() -> int | None:
    """The number of the child, in which it is 0; None where there may be none."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored nobody can wait for a child
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)  # before there are two of us
    try:
        child = os.fork()
    except OSError:
        child = None
    if child != 0:
        signal.signal(signal.SIGINT, heard)
    return child


async def _in_this_process(made: Iterator[MessageChunk]) -> AsyncGenerator[MessageChunk, None]:
    for chunk in made:
        yield chunk


def _write_to_pipe(made: Iterator[MessageChunk], descriptor: int) -> NoReturn:
    """Write all to the pipe, and end this process, with which the pipe is closed: not before all is said."""
    code = 0
    try:
        threading.Thread(target=_end_with_reader, args=(descriptor,), daemon=True).start()
        for chunk in made:
            packed = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
            left = memoryview(len(packed).to_bytes(_SIZE_BYTES, "big") + packed)
            while left:
                left = left[os.write(descriptor, left) :]
    except BrokenPipeError:
        pass  # nobody wants the rest
    except BaseException:  # noqa: BLE001 - whatever it is, what follows in the parent is not for this process
        code = EX_SOFTWARE
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_with_reader(descriptor: int) -> None:
    """End this process once nobody reads from the pipe any more: it may wait for a message that never comes."""
    errors = select.poll()
    errors.register(descriptor, 0)
    errors.poll()
    os._exit(0)


def _ended_by_fault(child: int) -> bool:
    """Whether it has ended of itself, not by a signal; it can still be waited for then."""
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its end has closed the pipe
    return ended is not None and ended.si_code == os.CLD_EXITED


async def _read_from_pipe(pipe: BinaryIO, child: int) -> AsyncGenerator[MessageChunk, None]:
    stream = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stream)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        last = False
        while not last:
            stop_if_cancelled()  # lost, it would be missed for as long as nothing comes
            size = await stream.readexactly(_SIZE_BYTES)
            packed = await stream.readexactly(int.from_bytes(size, "big"))
            chunk: MessageChunk = pickle.loads(packed)  # noqa: S301 - this very program wrote it
            yield chunk
            last = chunk.last
    except asyncio.IncompleteReadError as error:
        kind = ReaderProcessFault if _ended_by_fault(child) else ReaderProcessFailed
        raise kind("the process that reads the messages has ended before the last of them") from error
    finally:
        transport.close()
