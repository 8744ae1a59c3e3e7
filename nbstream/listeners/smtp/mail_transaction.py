"""The state of an SMTP session from MAIL to the end of DATA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.delivery.next_hop import SmtpPath, Transaction
    from nbstream.listeners.smtp.listener_state import MessageHandlers


@dataclass(slots=True)
class MailTransaction:
    """One mail that comes in, with its sender and the recipients that were accepted.

    It has one destination: the next hop's transaction, or the label of the feedback address that it is sent to. It
    has none while the next hop is away, and after a fault: each further RCPT and DATA gets a 451 then. With a mere
    503 at DATA the client would bounce mail whose first recipients were accepted.

    ``wants_verdict``: the client asked for the verdict in the reply, and may see it.
    """

    handlers: MessageHandlers
    sender: SmtpPath
    next_hop_transaction: Transaction | None
    feedback_label: str | None = None
    wants_verdict: bool = False
    recipients: list[SmtpPath] = field(default_factory=list)

    @property
    def has_destination(self) -> bool:
        """Whether the mail can be relayed or learned."""
        return self.next_hop_transaction is not None or self.feedback_label is not None

    async def send_to_feedback(self, label: str) -> None:
        """Make the feedback address of ``label`` the destination."""
        await self.drop_destination()
        self.feedback_label = label

    async def drop_destination(self) -> None:
        """End the next hop's transaction, and relay and learn nothing."""
        transaction, self.next_hop_transaction = self.next_hop_transaction, None
        self.feedback_label = None
        if transaction is not None:
            await transaction.abort()
