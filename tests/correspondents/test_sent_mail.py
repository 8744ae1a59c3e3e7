"""What a message of a user of ours says of his correspondents."""

from __future__ import annotations

import pytest

from nbstream.correspondents.sent_mail import MAX_RECIPIENTS, SentMail, read_message, read_sent
from nbstream.mail.message import Message
from tests.correspondents.mail import ANN, BOB, NOW, OURS, message


def test_a_message_says_to_whom_it_goes_and_what_an_answer_will_name() -> None:
    outgoing = message(f"Message-ID: <{OURS.decode()}>", sender=ANN)

    assert read_sent(outgoing, "Ann@Example.org", ["Bob@Partner.example", BOB], NOW) == SentMail(
        ANN, (BOB,), OURS, NOW
    )


@pytest.mark.parametrize(
    "message_id", ["", "Message-ID: <1@example.org>", "Message-ID: nonsense", "Message-ID: <>"]
)
def test_an_id_that_can_be_guessed_does_not_count(message_id: str) -> None:
    mail = read_sent(message(*filter(None, [message_id])), ANN, [BOB], NOW)

    assert mail
    assert mail.message_id == b""


@pytest.mark.parametrize(
    "field",
    [
        "Auto-Submitted: auto-replied (vacation)",
        "Auto-Submitted: auto-generated",
        "Content-Type: multipart/report; report-type=disposition-notification",
    ],
)
def test_what_a_program_answered_says_nothing(field: str) -> None:
    """Else whoever writes to a user who is away would be known."""
    assert read_sent(message(field), ANN, [BOB], NOW) is None


def test_a_mailing_says_nothing() -> None:
    crowd = [f"{number}@partner.example" for number in range(MAX_RECIPIENTS + 1)]

    assert read_sent(message(), ANN, crowd, NOW) is None
    assert read_sent(message(), ANN, crowd[1:], NOW) is not None
    assert read_sent(message(), ANN, [], NOW) is None
    assert read_sent(message(), ANN, ["root"], NOW) is None


def letter(*fields: str) -> Message:
    head = [f"Message-ID: <{OURS.decode()}>", "Date: Sat, 21 Nov 2026 10:00:00 +0100", f"From: {ANN}", *fields]
    return Message.parse("\n".join([*head, "", "text"]).encode())


@pytest.mark.parametrize("fields", [["Subject: no recipient"], ["To: " + "x" * 3000 + "@partner.example"]])
def test_a_letter_of_which_the_recipients_are_not_clear_says_nothing(fields: list[str]) -> None:
    assert read_message(letter(*fields), ANN) is None
