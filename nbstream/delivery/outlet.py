"""The ways that a checked message can take: to the next hop, to another address, or into the quarantine.

Rules: if the message goes to the next hop, the client gets the next hop's replies. If it goes into the quarantine,
the client gets a 250 after the file is synced. With a Maildir as the next hop, each group of recipients gets a
file of its own, and either all files are written or none. With SMTP as the next hop a message has one part,
because the transaction has one reply for all recipients. The given transaction is closed in every case.

Where the next hop refuses the address of a redirection the reply is a 451: it is not the sender's mistake, and the
sender must not learn the address. An LMTP server refuses an address also after the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbstream.delivery.maildir import DELIVERED_REPLY, MaildirNextHop
from nbstream.delivery.next_hop import DataReplies, Envelope, NextHop, SmtpPath, SmtpReply, Transaction
from nbstream.delivery.quarantine import Quarantine, QuarantineNote, QuarantinePart
from nbstream.errors import RelayUnavailable
from nbstream.mail.header_edits import HeaderEdits, edit_message
from nbstream.policy.verdict import Action, ActionKind
from nbstream.threads import in_thread_if_large

_QUARANTINED_REPLY = SmtpReply(250, "2.0.0 Accepted")


@dataclass(frozen=True, slots=True)
class DeliveryPart:
    """The action for some recipients of a message.

    ``edits`` change its header, and ``note`` goes into the quarantine.
    """

    action: Action
    edits: HeaderEdits
    envelope: Envelope
    note: QuarantineNote | None = None


class Outlet:
    """The ways out: the next hop, and the quarantine."""

    def __init__(self, next_hop: NextHop, quarantine: Quarantine) -> None:
        self.next_hop = next_hop
        """Where mail goes that is not held back."""
        self._quarantine = quarantine

    @property
    def splits_recipients(self) -> bool:
        """Whether the recipients of one message can be treated differently."""
        return isinstance(self.next_hop, MaildirNextHop)

    async def send(self, raw: bytes, parts: Sequence[DeliveryPart], transaction: Transaction) -> DataReplies:
        """Hand over ``raw`` (CRLF line ends) and return the replies to the client.

        Each action is one that takes the message. The order of the replies is that of the parts, and within each
        that of its envelope. Raises ``RelayUnavailable``.
        """
        if isinstance(self.next_hop, MaildirNextHop):
            await transaction.abort()
            return DataReplies((await self._write_to_maildir(raw, parts, self.next_hop),))
        (part,) = parts
        match part.action.kind:
            case ActionKind.PASS:
                fields, content = await _edited(raw, part.edits)
                return await transaction.data(content, fields)
            case ActionKind.QUARANTINE:
                await transaction.abort()
                failure = await self._quarantine.write([await _quarantine_part(raw, part)])
                return DataReplies((failure or _QUARANTINED_REPLY,))
            case _:
                await transaction.abort()
                return await self._redirect(raw, part)

    async def _write_to_maildir(
        self, raw: bytes, parts: Sequence[DeliveryPart], next_hop: MaildirNextHop
    ) -> SmtpReply:
        drafts, quarantined = [], list[QuarantinePart]()
        for part in parts:
            if part.action.kind is ActionKind.QUARANTINE:
                quarantined.append(await _quarantine_part(raw, part))
                continue
            is_redirected = part.action.kind is ActionKind.REDIRECT
            recipients = (SmtpPath(part.action.address),) if is_redirected else part.envelope.recipients
            fields, content = await _edited(raw, part.edits)
            drafts.append(next_hop.make_draft(part.envelope.sender, recipients, content, _with_lf(fields)))
        failure = await self._quarantine.write(quarantined, drafts)
        all_quarantined = all(part.action.kind is ActionKind.QUARANTINE for part in parts)
        return failure or (_QUARANTINED_REPLY if all_quarantined else DELIVERED_REPLY)

    async def _redirect(self, raw: bytes, part: DeliveryPart) -> DataReplies:
        transaction = await self.next_hop.begin(part.envelope.sender)
        try:
            reply = await transaction.rcpt(SmtpPath(part.action.address))
            if reply.accepted:
                fields, content = await _edited(raw, part.edits)
                replies = await transaction.data(content, fields)
                reply = replies.single
                if reply.accepted or not self.next_hop.answers_each_recipient:
                    return replies
        except BaseException:
            await transaction.abort()
            raise
        await transaction.abort()
        raise RelayUnavailable(f"the next hop refuses {part.action}: {reply}")


async def _quarantine_part(raw: bytes, part: DeliveryPart) -> QuarantinePart:
    assert part.note is not None
    fields, content = await _edited(raw, part.edits)
    return part.note, _with_lf(fields), content


async def _edited(raw: bytes, edits: HeaderEdits) -> tuple[bytes, bytes]:
    return await in_thread_if_large(len(raw), edit_message, raw, edits)


def _with_lf(fields: bytes) -> bytes:
    return fields.replace(b"\r\n", b"\n")
