"""The release from the quarantine over real sockets: the reply of the next hop decides about the file."""

from __future__ import annotations

import asyncio
import pathlib
import sys
from asyncio.subprocess import DEVNULL, PIPE

import pytest

from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineFile, QuarantineNote
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.errors import NbstreamError, NotReleased, RelayRefused, RelayUnavailable
from nbstream.server.quarantine_release import release_message
from tests.harness.scripted import Play, Relay, relay_at

CONTENT = b"Subject: x\r\n\r\nhello\r\n"
ENVELOPE = Envelope(
    SmtpPath("a@a.test", ("SIZE=9", "X-odd=Y")), (SmtpPath("b@b.test"), SmtpPath("c@c.test", ("NOTIFY=NEVER",)))
)

BEGUN = """
    C: MAIL FROM:<a@a.test> SIZE=9 X-odd=Y
    S: 250 ok
    C: RCPT TO:<b@b.test>
    S: 250 ok
    C: RCPT TO:<c@c.test> NOTIFY=NEVER
"""
DATA = """
    S: 250 ok
    C: DATA
    S: 354 go
    C: Subject: x
    C:
    C: hello
    C: .
"""

TAKEN = "S: 250 ok\nC: DATA\nS: 354 go\nC: some\nS: 250 queued\nC: gone"


def script(text: str) -> str:
    return "\n".join(line.strip() if line.strip() != "C:" else "C: " for line in text.strip().splitlines() if line)


async def put(path: pathlib.Path) -> tuple[Quarantine, QuarantineFile]:
    folder = Quarantine(path / "Quarantine")
    assert await folder.write([(QuarantineNote("a" * 24, "spam", 0.9, "", ENVELOPE), b"", CONTENT)]) is None
    (message,) = folder.messages()
    return folder, message


async def test_a_message_goes_with_its_envelope_and_its_file_is_removed_after_the_250(
    play: Play, relay_to: Relay, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    server = await play(script(BEGUN + DATA + "S: 250 queued"))

    await release_message(message, ENVELOPE, CONTENT, relay_to(server))

    await server.played()
    assert folder.messages() == []


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("S: 550 no such user\nC: RSET\nS: 250 ok", RelayRefused),
        ("S: drop", RelayUnavailable),
        ("S: 250 ok\nC: DATA\nS: 451 later\nC: RSET\nS: 250 ok", RelayRefused),
        (DATA + "S: 554 no", RelayRefused),
        (DATA + "S: 452 full", RelayRefused),
    ],
)
async def test_a_message_that_the_next_hop_refuses_waits_on(
    rest: str, expected: type[NbstreamError], play: Play, relay_to: Relay, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    server = await play(script(BEGUN + rest))

    with pytest.raises(expected):
        await release_message(message, ENVELOPE, CONTENT, relay_to(server))

    await server.played()
    assert folder.messages() == [message]


async def test_a_next_hop_that_answers_each_recipient_gets_one_after_the_other(
    play: Play, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    begun = "C: MAIL FROM:<a@a.test> SIZE=9 X-odd=Y\nS: 250 ok\n"
    to_b, to_c = (f"{begun}C: RCPT TO:{path}" for path in ("<b@b.test>", "<c@c.test> NOTIFY=NEVER"))
    server = await play(
        script(f"{to_b}{DATA}S: 250 saved\n{to_c}{DATA}S: 452 full\n{to_c}{DATA}S: 250 saved"), lmtp=True
    )
    next_hop = SmtpNextHop(relay_at(server.port, lmtp=True))

    rest = await release_message(message, ENVELOPE, CONTENT, next_hop)

    assert rest is not None
    assert folder.messages() == [rest]
    assert not rest.in_doubt
    note, content = quarantine.read_message(rest)
    assert (note.envelope.sender, note.envelope.recipients) == (ENVELOPE.sender, ENVELOPE.recipients[1:])
    assert (note.id, note.probability, content) == ("a" * 24, 0.9, CONTENT)
    with pytest.raises(RelayRefused):
        await release_message(rest, note.envelope, CONTENT, next_hop)
    assert folder.messages() == [rest]
    assert await release_message(rest, note.envelope, CONTENT, next_hop) is None
    assert folder.messages() == []
    await server.played()
    await next_hop.close()


async def test_a_message_whose_reply_never_came_stays_in_doubt(
    play: Play, relay_to: Relay, tmp_path: pathlib.Path
) -> None:
    folder, message = await put(tmp_path)
    server = await play(script(BEGUN + DATA + "S: drop"))

    with pytest.raises(NotReleased, match="may have been delivered"):
        await release_message(message, ENVELOPE, CONTENT, relay_to(server))

    (doubtful,) = folder.messages()
    assert doubtful.in_doubt
    assert quarantine.read_message(doubtful)[0].envelope == ENVELOPE


async def test_after_a_killed_release_the_message_is_delivered_again_only_on_purpose(
    play: Play, tmp_path: pathlib.Path, redis_binary: pathlib.Path
) -> None:
    folder, message = await put(tmp_path / "state")
    server = await play(
        script(BEGUN + "S: 250 ok\nC: DATA\nS: 354 go\nC: some\nS: nothing"), script(BEGUN + TAKEN)
    )
    config = tmp_path / "nb.yaml"
    config.write_text(f"state_dir: {tmp_path / 'state'}\nrelay: {{next_hop: 'smtp://127.0.0.1:{server.port}'}}\n")
    words = (sys.executable, "-m", "nbstream.cli", "quarantine", "release", message.id, "-c", str(config))

    killed = await asyncio.create_subprocess_exec(*words, stdout=DEVNULL)
    async with asyncio.timeout(60):
        await server.silent.wait()
    killed.kill()
    await killed.wait()
    server.go_on.set()

    assert [waiting.in_doubt for waiting in folder.messages()] == [True]
    careful = await asyncio.create_subprocess_exec(*words, stdout=DEVNULL, stderr=PIPE)
    output = (await careful.communicate())[1].decode()
    assert (careful.returncode, "may have been delivered" in output) == (75, True)
    on_purpose = await asyncio.create_subprocess_exec(*words, "--again", stdout=PIPE)
    output = (await on_purpose.communicate())[0].decode()
    assert (on_purpose.returncode, output.partition(";")[0]) == (0, f"{message.id} released")
    await server.played()
    assert folder.messages() == []
