"""The audit of mail: what was acknowledged, and what arrived. Pure, but for the readers of folders at its end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nbstream.delivery.quarantine import Quarantine, read_message
from tests.soak.chaos.deviations import Deviation
from tests.soak.chaos.journal import Fault, MailAttempt, MailOutcome
from tests.soak.chaos.mails import mail, without_own_fields
from tests.soak.chaos.next_hop import Reception, Reply
from tests.soak.chaos.senders import sender_address


def mail_deviations(
    attempts: Sequence[MailAttempt], receptions: Sequence[Reception], faults: Sequence[Fault]
) -> Iterator[Deviation]:
    """Yield what is wrong with the mail; ``receptions`` are those of all next hops and quarantines."""
    received = defaultdict(list)
    for reception in receptions:
        received[reception.sender].append(reception)
    for attempt in attempts:
        deliveries = received.pop(sender_address(attempt.mail, attempt.attempt), [])
        name = f"mail {attempt.mail}, attempt {attempt.attempt} at host {attempt.host} ({attempt.reply})"
        problem = _delivery_problem(attempt.outcome, [delivery.reply for delivery in deliveries])
        if problem:
            yield Deviation(f"{name}: {problem}", attempt.ended)
        if any(
            without_own_fields(delivery.content) != without_own_fields(mail(attempt.mail))
            for delivery in deliveries
        ):
            yield Deviation(f"{name}: it arrived altered", attempt.ended)
        if attempt.outcome is MailOutcome.REFUSED and not _may_be_refused(attempt, faults):
            yield Deviation(f"{name}: refused although only Redis had failed", attempt.ended)
    for sender in received:
        yield Deviation(f"mail of {sender} arrived that was never sent")


def _delivery_problem(outcome: MailOutcome, replies: Sequence[Reply]) -> str:
    """Return what is wrong with an attempt of this outcome, which arrived as often as there are replies."""
    if len(replies) > 1:
        return f"it arrived {len(replies)} times"
    match outcome, replies:
        case MailOutcome.ACKNOWLEDGED, []:
            return "it was acknowledged and never arrived"
        case MailOutcome.ACKNOWLEDGED, [Reply.NOT_SENT]:
            return "it was acknowledged although the next hop did not"
        case MailOutcome.REFUSED, [Reply.READ]:
            return "it was refused although the next hop had accepted it"
        case MailOutcome.NOT_SENT, [_]:
            return "it arrived although it was never sent to its end"
    return ""


def _may_be_refused(attempt: MailAttempt, faults: Sequence[Fault]) -> bool:
    """Return whether a fault of the next hop, of a disk or of the daemon itself fell into the attempt."""
    targets = {"a": {"a", "hop", "all"}, "b": {"b", "all"}}[attempt.host]
    return any(
        fault.target in targets
        and not fault.kind.startswith("connection to Redis")
        and fault.begun <= attempt.ended
        and attempt.begun <= fault.ended + 1.0
        for fault in faults
    )


def without_doubtful(deliveries: Iterable[Reception], senders_in_doubt: Iterable[str]) -> Iterator[Reception]:
    """Yield the deliveries, but for one of each message that waits in a quarantine in doubt.

    A release that ended before the next hop's answer may have delivered it. The file stands for it then, since it
    is released only if somebody asks for it again.
    """
    doubtful = Counter(senders_in_doubt)
    for delivery in deliveries:
        if doubtful[delivery.sender]:
            doubtful[delivery.sender] -= 1
        else:
            yield delivery


def maildir_receptions(maildir: Path) -> Iterator[Reception]:
    """Yield the messages in a Maildir, each without the fields of its envelope."""
    for path in (maildir / "new").iterdir() if (maildir / "new").is_dir() else ():
        lines = path.read_bytes().split(b"\n")
        assert lines[0].startswith(b"Return-Path: <"), path
        sender = lines[0].partition(b"<")[2].partition(b">")[0].decode()
        count = 1 + lines[1].startswith(b"X-Envelope-To: ")
        yield Reception(sender, b"\n".join(lines[count:]), Reply.READ)


def quarantine_receptions(quarantine: Path) -> Iterator[Reception]:
    """Yield the messages that wait in a quarantine."""
    for message in Quarantine(quarantine).messages():
        note, content = read_message(message)
        yield Reception(note.envelope.sender.address, content, Reply.READ)


def senders_in_doubt(quarantine: Path) -> Iterator[str]:
    """Yield the senders of the messages of which a release ended without the next hop's answer."""
    for message in Quarantine(quarantine).messages():
        if message.in_doubt:
            yield read_message(message)[0].envelope.sender.address
