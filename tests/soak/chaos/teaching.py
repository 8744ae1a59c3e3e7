"""The ways by which a message is taught once, and what the client knows then.

Rules: an answer that is no success promises nothing, because the lesson may be stored all the same. A command that
is killed promises nothing either.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbstream.cli.exit_codes import EX_NOINPUT
from nbstream.mail.message import Message
from tests.harness.spool_client import TAKEN, report
from tests.soak.chaos.http_client import request
from tests.soak.chaos.journal import FeedbackOutcome, Journal, LessonAttempt
from tests.soak.chaos.mails import mail
from tests.soak.chaos.senders import SmtpRefusal, smtp_transaction
from tests.soak.chaos.site import Host

_COMMAND_SECONDS = 60.0
_LONG_SECONDS = 300.0  # for thousands of messages on a slow machine
_SPAMD_SECONDS = 15.0

Answer = tuple[FeedbackOutcome, str]
"""What the client knows, and the answer in short."""


@dataclass(frozen=True, slots=True)
class SpooledLesson:
    """A message that was reported at a host, and the answer; it is empty where none came."""

    host: Host
    number: int
    label: str
    begun: float
    answer: bytes


def key_of(number: int) -> str:
    """Return the id of the message of that number."""
    return Message.parse(mail(number)).key


class Teaching:
    """One client of each listener and command."""

    def __init__(self, journal: Journal, folder: Path) -> None:
        self._journal = journal
        self._folder = folder
        self._commands = 0

    async def by_http(self, host: Host, number: int, label: str | None) -> FeedbackOutcome:
        """Teach over the API."""
        path = f"/v1/learn?label={label}" if label else "/v1/unlearn"
        return await self._attempt("http", host, number, label, self._ask_http(host, path, number))

    async def by_feedback_mail(self, host: Host, number: int, label: str) -> FeedbackOutcome:
        """Teach by a mail to the feedback address; nothing can be unlearned this way."""
        return await self._attempt("feedback mail", host, number, label, self._send_feedback(host, number, label))

    async def by_spamd(self, host: Host, number: int, label: str | None) -> FeedbackOutcome:
        """Teach by TELL."""
        return await self._attempt("spamd", host, number, label, self._tell(host, number, label))

    async def by_spool(self, host: Host, number: int, label: str) -> SpooledLesson:
        """Report a message as Dovecot does; what is taken is learned later. ``write_spooled`` writes it down."""
        begun = self._journal.now()
        try:
            answer = await asyncio.to_thread(report, host.report_socket, mail(number), label)
        except OSError as error:
            answer = type(error).__name__.encode()
        return SpooledLesson(host, number, label, begun, answer)

    def write_spooled(self, lesson: SpooledLesson) -> None:
        """Write down a message that was reported, once nothing waits in the spool."""
        outcome = FeedbackOutcome.DONE if lesson.answer == TAKEN else FeedbackOutcome.UNKNOWN
        self._write_down(
            f"spool at {lesson.host.name}",
            lesson.host,
            lesson.number,
            lesson.label,
            lesson.begun,
            (outcome, lesson.answer.decode()),
        )

    async def by_undo(self, host: Host, number: int) -> FeedbackOutcome:
        """Undo all that was taught of a message, by the command."""
        return await self._attempt("undo", host, number, None, self._undo(host, key_of(number)))

    async def by_release(self, host: Host, number: int) -> FeedbackOutcome:
        """Release a quarantined message by the command, which teaches it as ham first."""
        return await self._attempt("release", host, number, "ham", self._release(host, key_of(number)))

    async def by_command(
        self, host: Host, numbers: Sequence[int], label: str | None, kill_after: float | None
    ) -> None:
        """Teach several messages by one command, which is killed after so many seconds where that is given."""
        folder = self._write_messages(numbers)
        words: list[str | Path] = ["learn", label, folder] if label else ["unlearn", folder]
        begun = self._journal.now()
        code, output = await run_command(host, *words, seconds=kill_after or _COMMAND_SECONDS)
        outcome = FeedbackOutcome.DONE if code == 0 else FeedbackOutcome.UNKNOWN
        if outcome is FeedbackOutcome.DONE and _counted(output) != len(numbers):
            self._journal.add_problem(f"a command taught {len(numbers)} messages and said: {output}")
        for number in numbers:
            self._write_down("command", host, number, label, begun, (outcome, f"exit code {code}: {output}"))

    async def unlearn_all(self, host: Host, numbers: Sequence[int]) -> str:
        """Unlearn all these messages by one command; return why that failed, or nothing."""
        code, output = await run_command(host, "unlearn", self._write_messages(numbers), seconds=_LONG_SECONDS)
        return "" if code == 0 and _counted(output) == len(numbers) else f"exit code {code}: {output}"

    def _write_messages(self, numbers: Sequence[int]) -> Path:
        """Write the messages as files of a folder of their own."""
        self._commands += 1
        folder = self._folder / f"command{self._commands}"
        folder.mkdir(parents=True)
        for number in numbers:
            (folder / f"{number}.eml").write_bytes(mail(number))
        return folder

    async def _attempt(
        self, route: str, host: Host, number: int, label: str | None, asking: Coroutine[Any, Any, Answer]
    ) -> FeedbackOutcome:
        begun = self._journal.now()
        try:
            answer = await asking
        except SmtpRefusal as refusal:
            answer = FeedbackOutcome.UNKNOWN, str(refusal)
        except ConnectionRefusedError:
            answer = FeedbackOutcome.NOT_SENT, "connection refused"
        except (OSError, EOFError) as error:  # TimeoutError is an OSError
            answer = FeedbackOutcome.UNKNOWN, f"{type(error).__name__}: {error}"
        self._write_down(f"{route} at {host.name}", host, number, label, begun, answer)
        return answer[0]

    def _write_down(
        self, route: str, host: Host, number: int, label: str | None, begun: float, answer: Answer
    ) -> None:
        ended, (outcome, reply) = self._journal.now(), answer
        self._journal.add_lesson(
            LessonAttempt(key_of(number), label, route, begun, ended, outcome, reply[:200], host=host.name)
        )

    async def _ask_http(self, host: Host, path: str, number: int) -> Answer:
        status, answer = await request(host.ports.http, "POST", path, mail(number))
        if status != 200:
            return FeedbackOutcome.UNKNOWN, f"{status} {answer.get('detail')}"
        if answer["id"] != key_of(number):
            self._journal.add_problem(f"the answer for {key_of(number)} is about {answer['id']}")
        same = answer["outcome"] in {"already", "unknown"}
        return (FeedbackOutcome.SAME if same else FeedbackOutcome.CHANGED), answer["outcome"]

    async def _send_feedback(self, host: Host, number: int, label: str) -> Answer:
        async with smtp_transaction(host) as transaction:
            reply = await transaction.deliver("user@example.net", f"{label}@nbstream.invalid", mail(number))
        if not reply.endswith(f"; id={key_of(number)}"):
            self._journal.add_problem(f"the answer for {key_of(number)} is: {reply}")
        return (FeedbackOutcome.SAME if " already learned" in reply else FeedbackOutcome.CHANGED), reply

    async def _tell(self, host: Host, number: int, label: str | None) -> Answer:
        what = f"Message-class: {label}\r\nSet: local" if label else "Remove: local"
        body = mail(number)
        async with asyncio.timeout(_SPAMD_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", host.ports.spamd)
            try:
                writer.write(f"TELL SPAMC/1.5\r\nContent-length: {len(body)}\r\n{what}\r\n\r\n".encode() + body)
                answer = (await reader.read(-1)).decode()
            finally:
                writer.transport.abort()
        if " 0 EX_OK" not in answer or not answer.endswith("\r\n\r\n"):
            return FeedbackOutcome.UNKNOWN, answer
        changed = "DidSet" in answer or "DidRemove" in answer
        return (FeedbackOutcome.CHANGED if changed else FeedbackOutcome.SAME), answer

    async def _undo(self, host: Host, key: str) -> Answer:
        code, output = await run_command(host, "undo", "--id", key, "--yes", "--json")
        if code != 0:
            return FeedbackOutcome.UNKNOWN, f"exit code {code}: {output}"
        outcomes = {json.loads(line).get("outcome") for line in output.splitlines() if line.startswith("{")}
        return (FeedbackOutcome.UNKNOWN if "stays" in outcomes else FeedbackOutcome.DONE), output

    async def _release(self, host: Host, key: str) -> Answer:
        code, output = await run_command(host, "quarantine", "release", key)
        if code == EX_NOINPUT:  # it has gone
            return FeedbackOutcome.NOT_SENT, output
        return (FeedbackOutcome.UNKNOWN if code else FeedbackOutcome.DONE), f"exit code {code}: {output}"


async def run_command(host: Host, *words: str | Path, seconds: float = _COMMAND_SECONDS) -> tuple[int, str]:
    """Run a command on the host's configuration, and return its exit code and what it printed.

    It is killed if it has not ended within so many ``seconds``.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nbstream.cli", *words, "-c", host.config),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    reading = asyncio.create_task(process.communicate())
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.shield(reading)
    if not reading.done():
        process.kill()
    output, _ = await reading
    assert process.returncode is not None
    return process.returncode, output.decode("utf-8", "replace").strip()


def _counted(output: str) -> int:
    """Return how many messages a summary of ``nbstream learn`` counts."""
    if not output:
        return 0
    counts = output.splitlines()[0].partition(";")[0].split(", ")
    return sum(int(words[0]) for words in map(str.split, counts) if words and words[0].isdigit())
