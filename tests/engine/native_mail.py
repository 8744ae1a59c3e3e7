"""The native version of ``nbstream.mail``, asked by function, and what Python says to the same."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nbstream.mail.message import Message
from nbstream.mail.mime import MimePart
from tests.harness.programs import find_program

_NATIVE = Path(__file__).parent.parent.parent / "native"
LEFT_TO_PYTHON = b"?"
"""What the native side says of a key, an end or (first) a file name that only Python can tell."""


class NativeMail:
    """A process that answers: see ``native/examples/mail_answers.rs``."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self._questions = questions
        self._answers = answers

    def ask(self, *question: bytes) -> list[bytes] | None:
        """Return the answer in pieces; None where the question is left to Python."""
        self._questions.write(struct.pack("<I", len(question)))
        for string in question:
            self._questions.write(struct.pack("<I", len(string)) + string)
        self._questions.flush()
        answer = [self._read(self._number()) for _ in range(self._number())]
        return answer or None

    def ask_message(self, message: Message) -> list[bytes] | None:
        """Return what ``described_message`` returns, or None where the whole message is left to Python."""
        limits = (message.limits.look_bytes, message.limits.max_parts, message.limits.max_depth)
        numbers = [str(limit).encode() for limit in limits]
        return self.ask(b"Message", message.raw, *numbers, b"1" if message.is_bare_text else b"0")

    def _number(self) -> int:
        number: int = struct.unpack("<I", self._read(4))[0]
        return number

    def _read(self, size: int) -> bytes:
        content = self._answers.read(size)
        assert len(content) == size, "the native side broke down"
        return content


def build_native_mail() -> Path:
    """Return the program that answers. Its arithmetic is checked."""
    cargo = find_program(os.environ.get("CARGO", "cargo"))
    subprocess.run((cargo, "build", "--quiet", "--offline", "--example", "mail_answers"), cwd=_NATIVE, check=True)
    return _NATIVE / "target" / "debug" / "examples" / "mail_answers"


@contextmanager
def running_native_mail(*command: str | Path) -> Iterator[NativeMail]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield NativeMail(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def message_difference(native: NativeMail, message: Message) -> str | None:
    """Return where the native side differs from Python; None where it does not or leaves it to Python."""
    answer = native.ask_message(message)
    if answer is None:
        return None
    expected = described_message(message)
    for position, (theirs, ours) in enumerate(zip(answer, expected, strict=False)):
        if theirs != ours and not theirs.startswith(LEFT_TO_PYTHON):
            return f"string {position} is {theirs[:200]!r} and not {ours[:200]!r}"
    if len(answer) != len(expected):
        return f"{len(answer)} strings and not {len(expected)}"
    return None


def described_message(message: Message) -> list[bytes]:
    """Return what the native side is to say of a message: see ``described_message`` in ``mail_answers.rs``."""
    strings = [
        _described(message.is_mail),
        message.key.encode(),
        message.unread_end.encode("utf-8", "surrogatepass"),
    ]
    for part in message.parts:
        strings += _described_part(part)
    return strings


def _described_part(part: MimePart) -> list[bytes]:
    strings = [
        part.content_type.encode(),
        str(part.depth).encode(),
        (part.charset if part.charset is not None else "none").encode(),
        (part.filename or "").encode("utf-8", "surrogatepass"),
        part.disposition.encode(),
        part.transfer_encoding.encode(),
        _described(part.is_container),
        part.payload,
        str(len(part.fields)).encode(),
    ]
    for field in part.fields:
        strings += [field.name.encode(), field.name_as_written.encode(), field.value]
    return strings


def _described(is_true: bool) -> bytes:
    return b"true" if is_true else b"false"
