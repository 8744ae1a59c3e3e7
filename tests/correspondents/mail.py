"""Mail of a site that knows whom it wrote to, for tests."""

from __future__ import annotations

from email.utils import formatdate

from nbstream.correspondents.facts import DAY_SECONDS, CorrespondentFacts, FactHasher
from nbstream.correspondents.sent_mail import SentMail, read_sent
from nbstream.mail.message import Message
from nbstream.policy.sender_lists import EvidenceReader

NOW = 1_790_000_000.0
ANN, BOB = "ann@example.org", "bob@partner.example"
OURS = b"20261121.7f3a9c51d2@example.org"
HASHER = FactHasher(b"k" * 32)
READER = EvidenceReader(frozenset({"mx.example.org"}))


def message(*fields: str, sender: str = BOB, proved: str = "", at: float | None = NOW) -> Message:
    """A message that came in; ``proved`` is a domain that DKIM has proved."""
    trace = [f"Authentication-Results: mx.example.org; dkim=pass header.d={proved}"] if proved else []
    trace += [f"Received: from x by mx.example.org; {formatdate(at)}"] if at is not None else []
    return Message.parse(
        "\n".join([*trace, f"From: {sender}", "Subject: hello", *fields, "", "text", ""]).encode()
    )


def sent(*recipients: str, at: float = NOW - DAY_SECONDS, user: str = ANN, message_id: bytes = OURS) -> SentMail:
    """A message that a user sent."""
    mail = read_sent(message(f"Message-ID: <{message_id.decode()}>", sender=ANN), user, recipients or (BOB,), at)
    assert mail
    return mail


def facts_of(*mails: SentMail) -> CorrespondentFacts:
    """What is known from these messages."""
    facts = CorrespondentFacts(HASHER)
    for mail in mails:
        facts.add(HASHER.hash_sent(mail))
    return facts


def answer(**arguments: str | float | None) -> Message:
    """A message that answers ours."""
    return message(f"In-Reply-To: <{OURS.decode()}>", **arguments)  # type: ignore[arg-type]  # those of message
