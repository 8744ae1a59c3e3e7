"""A release as a whole: it teaches first, then delivers over real sockets, and never both ways at once."""

from __future__ import annotations

import pathlib

from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import NextHop
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.errors import RelayRefused, StoreUnavailable
from nbstream.filter import Check, FeedbackOutcome, FeedbackResult
from nbstream.mail.message import Message
from nbstream.policy.header import HeaderPolicy, MessageReader
from nbstream.policy.settings import HeadersSettings
from nbstream.policy.verdict import ModelState, Verdict
from nbstream.server.quarantine_release import QuarantineReleaser
from tests.harness.scripted import Play, Relay, relay_at
from tests.server.test_quarantine_release import ENVELOPE, put, script

BEFORE = Check(
    id="a" * 24, verdict=Verdict.SPAM, probability=0.9, score=2.0, reason="because", state=ModelState({}), clues=()
)
AFTER = Check(
    id="a" * 24,
    verdict=Verdict.UNSURE,
    probability=0.6,
    score=1.0,
    reason="because",
    state=ModelState({}),
    clues=(),
)
MAIL = "C: MAIL FROM:<a@a.test> SIZE=9 X-odd=Y\nS: 250 ok\n"
TO_B, TO_C = "C: RCPT TO:<b@b.test>\nS: 250 ok\n", "C: RCPT TO:<c@c.test> NOTIFY=NEVER\nS: 250 ok\n"
CONTENT = f"""
    C: DATA
    S: 354 go
    C: X-Nbstream: ham; probability=0.600000; reason="released from the quarantine";
    C: \tmodel=default; id={"a" * 24}
    C: Subject: x
    C:
    C: hello
    C: .
"""


class Teacher:
    """Teaches nothing, and notes the subjects of what it was to teach."""

    def __init__(self, error: Exception | None = None) -> None:
        self.taught: list[str] = []
        self._error = error

    async def learn_ham(self, message: Message) -> FeedbackResult:
        if self._error:
            raise self._error
        (subject,) = (field.text for field in message.fields if field.name == "subject")
        self.taught.append(subject)
        outcome = FeedbackOutcome.ALREADY if self.taught[1:] else FeedbackOutcome.LEARNED
        return FeedbackResult(outcome, "ham", BEFORE, AFTER)


def releaser(teacher: Teacher, next_hop: NextHop) -> QuarantineReleaser:
    return QuarantineReleaser(
        teacher.learn_ham, MessageReader(), HeaderPolicy("default", HeadersSettings(mode="observe")), next_hop
    )


async def test_a_message_is_taught_and_goes_on_as_what_a_person_called_it(
    play: Play, relay_to: Relay, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    server = await play(script(f"{MAIL}{TO_B}{TO_C}{CONTENT}S: 250 queued"))
    teacher = Teacher()

    (lesson,), error = await releaser(teacher, relay_to(server)).release([message])

    await server.played()
    assert (lesson.outcome, error, teacher.taught) == (FeedbackOutcome.LEARNED, None, ["x"])
    assert folder.messages() == []


async def test_nothing_is_delivered_that_could_not_be_taught(
    play: Play, relay_to: Relay, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    server = await play()  # it would fail a connection

    away = StoreUnavailable("away")

    assert await releaser(Teacher(away), relay_to(server)).release([message]) == ([], away)

    assert folder.messages() == [message]


async def test_of_several_recipients_of_lmtp_those_after_a_refusal_wait_on(
    play: Play, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    server = await play(
        script(
            f"{MAIL}{TO_B}{CONTENT}S: 250 saved\n{MAIL}{TO_C}{CONTENT}S: 452 full\n{MAIL}{TO_C}{CONTENT}S: 250"
        ),
        lmtp=True,
    )
    next_hop = SmtpNextHop(relay_at(server.port, lmtp=True))
    teacher = Teacher()

    lessons, error = await releaser(teacher, next_hop).release([message])
    assert len(lessons) == 2
    assert isinstance(error, RelayRefused)
    (rest,) = folder.messages()
    assert quarantine.read_message(rest)[0].envelope.recipients == ENVELOPE.recipients[1:]
    await releaser(teacher, next_hop).release([rest])

    assert folder.messages() == []
    assert teacher.taught == ["x"] * 3
    await server.played()
    await next_hop.close()
