"""The messages of a command line, read and tokenized in a child process while the parent teaches them.

Rules: the child is forked while there is neither a loop nor a thread nor a connection, so that it shares none. It
writes to a pipe, and is ahead by what the pipe holds and one chunk. Ctrl-C is for the parent, which kills the
child when it ends itself; where the parent is killed, the child notices by the pipe, also while it waits for
input. Where threads run already nothing is forked, since a lock that one of them has taken would never be released
in the child; nor where the system allows no further process. The parent reads then.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
import select
import signal
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, TypeAlias

from nbstream.cli.exit_codes import EX_SOFTWARE
from nbstream.errors import NbstreamError
from nbstream.filter import TokenizedMessage
from nbstream.mail.forwards import original_of
from nbstream.store.model.ledger import pack_tokens

if TYPE_CHECKING:
    from nbstream.cli.message_files import NamedMessage
    from nbstream.policy.header import MessageReader
    from nbstream.tokens.tokenizer import Tokenizer


_MESSAGES_PER_CHUNK = 16  # writing and reading them costs 1 % of tokenizing them
_SIZE_BYTES = 8
_PIPE_BYTES = 1 << 20  # some five chunks: with the usual 64 KiB both processes wait for each other at each chunk

MessageSource: TypeAlias = "Callable[[list[NbstreamError]], Iterator[tuple[NamedMessage, str | None]]]"
"""Yields messages and the class that each is learned into, and adds to a list what it could not read.

None stands for unlearning.
"""


class ReadMessage(NamedTuple):
    """A message with its label and the name of its source."""

    tokenized: TokenizedMessage
    label: str | None
    name: str


@dataclass(frozen=True, slots=True)
class MessageChunk:
    """Some messages in order, and what could not be read on the way to them.

    ``last`` is true for the chunk after which nothing comes.
    """

    messages: Sequence[ReadMessage]
    errors: Sequence[NbstreamError]
    last: bool


def read_chunks(
    read_sources: MessageSource, tokenizer: Tokenizer, reader: MessageReader
) -> Iterator[MessageChunk]:
    """Yield the messages of a source, and what it could not read."""
    errors: list[NbstreamError] = []
    messages: list[ReadMessage] = []
    for source, label in read_sources(errors):
        taken = tokenizer.tokenize(reader.read_taught(original_of(source.raw)))
        packed = b"" if label is None else pack_tokens(taken.tokens.all)  # here the other core does that
        tokenized = taken._replace(packed_tokens=packed)
        messages.append(ReadMessage(tokenized, label, source.name))
        if len(messages) == _MESSAGES_PER_CHUNK:
            yield MessageChunk(tuple(messages), tuple(errors), last=False)
            messages.clear()
            errors.clear()
    yield MessageChunk(tuple(messages), tuple(errors), last=True)


@contextmanager
def in_own_process(chunks: Iterator[MessageChunk]) -> Iterator[AsyncGenerator[MessageChunk, None]]:
    """Give the same chunks, made by a child process, which has ended when the context ends.

    Iterating raises ``NbstreamError`` where others end the child before the last of them, and ``RuntimeError``
    where a fault does, whose traceback the child has printed.
    """
    if threading.active_count() > 1:
        yield _in_this_process(chunks)
        return
    reading, writing = os.pipe()
    with suppress(OSError):  # users may have used up what they may have
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    child = _fork_reader()
    if child == 0:
        os.close(reading)
        _write_to_pipe(chunks, writing)
    os.close(writing)
    if child is None:
        os.close(reading)
        yield _in_this_process(chunks)
        return
    try:
        with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor has no path
            yield _read_from_pipe(pipe, child)
    finally:
        os.kill(child, signal.SIGKILL)  # until it is waited for, its number is not used again
        os.waitpid(child, 0)


def _fork_reader() -> int | None:
    """Return the child's process number, in the child itself 0, and None where no process may be added."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored no process can wait for a child
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # before the child exists
    try:
        child = os.fork()
    except OSError:
        child = None
    if child != 0:
        signal.signal(signal.SIGINT, handler)
    return child


async def _in_this_process(chunks: Iterator[MessageChunk]) -> AsyncGenerator[MessageChunk, None]:
    for chunk in chunks:
        yield chunk


def _write_to_pipe(chunks: Iterator[MessageChunk], descriptor: int) -> NoReturn:
    """Write all chunks to the pipe, then end this process, which closes the pipe."""
    code = 0
    try:
        threading.Thread(target=_end_with_reader, args=(descriptor,), daemon=True).start()
        for chunk in chunks:
            packed = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
            left = memoryview(len(packed).to_bytes(_SIZE_BYTES, "big") + packed)
            while left:
                left = left[os.write(descriptor, left) :]
    except BrokenPipeError:
        pass  # the parent wants no more
    except BaseException:  # noqa: BLE001 - whatever it is, the code of the parent must not go on in this process
        code = EX_SOFTWARE
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_with_reader(descriptor: int) -> None:
    """End this process once nobody reads from the pipe: it may be waiting for a message that never comes."""
    errors = select.poll()
    errors.register(descriptor, 0)
    errors.poll()
    os._exit(0)


def _ended_by_fault(child: int) -> bool:
    """Return whether the child ended by itself and not by a signal; it can still be waited for then."""
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # the pipe is closed, because the child has ended
    return ended is not None and ended.si_code == os.CLD_EXITED


async def _read_from_pipe(pipe: BinaryIO, child: int) -> AsyncGenerator[MessageChunk, None]:
    stream = asyncio.StreamReader(limit=_PIPE_BYTES)
    protocol = asyncio.StreamReaderProtocol(stream)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        last = False
        while not last:
            size = await stream.readexactly(_SIZE_BYTES)
            packed = await stream.readexactly(int.from_bytes(size, "big"))
            chunk: MessageChunk = pickle.loads(packed)  # noqa: S301 - our own child process wrote it
            yield chunk
            last = chunk.last
    except asyncio.IncompleteReadError as error:
        text = "the process that reads the messages has ended before the last of them"
        raise (RuntimeError if _ended_by_fault(child) else NbstreamError)(text) from error
    finally:
        transport.close()
