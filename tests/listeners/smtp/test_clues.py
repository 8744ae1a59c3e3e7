"""The clues on delivered mail: there where there are any, off by a setting, and never those of a sender."""

from __future__ import annotations

from email import message_from_bytes

from tests.harness.smtp_listener import HAM, SPAM, RunningSmtp

PRIZE = b"From: win@offers.example\r\nSubject: prize\r\n\r\nClaim your free prize n\xc3\xb6w\r\n"
LUNCH = b"From: ann@example.org\r\nSubject: lunch\r\n\r\nShall we have lunch?\r\n"
AGAIN = b"X-nbstream-CLUES: ham:forged\r\n -9.99\r\n" + PRIZE.replace(b"Claim", b"Take")


async def clues(smtp: RunningSmtp) -> list[str]:
    """Those on a message after one like it was learned, and another."""
    assert (await smtp.send(PRIZE, SPAM)).startswith("250 ")
    assert (await smtp.send(LUNCH, HAM)).startswith("250 ")
    assert (await smtp.send(AGAIN)).startswith("250 ")
    (delivered,) = smtp.delivered()
    return message_from_bytes(delivered).get_all("X-Nbstream-Clues", [])


async def test_the_strongest_clues_stand_in_the_header_and_forged_ones_do_not(smtp: RunningSmtp) -> None:
    (field,) = await clues(smtp)

    clue_lines = [line.strip().split() for line in field.split(",")]
    assert len(clue_lines) == 8
    weights = [abs(float(weight)) for _, weight in clue_lines]
    assert weights == sorted(weights, reverse=True)
    assert "forged" not in field
    assert field.isascii()
