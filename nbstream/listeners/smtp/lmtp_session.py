"""One LMTP session (RFC 2033): SMTP in which each recipient of a message gets a reply of its own.

Rules: LHLO takes the place of HELO and EHLO. After the content there is one reply for each RCPT that was
accepted, in their order, whatever happens: a client that misses one would take the next reply for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbstream.delivery.next_hop import DataReplies
from nbstream.listeners.smtp.session import SmtpSession
from nbstream.server import smtp_replies
from nbstream.server.smtp_replies import TEMPORARY_FAILURE

if TYPE_CHECKING:
    from nbstream.listeners.smtp.data_content import IncomingMessage
    from nbstream.listeners.smtp.mail_transaction import MailTransaction

_log = logging.getLogger(__name__)


class LmtpSession(SmtpSession):
    """The session of one connection."""

    ident = "LMTP nbstream"
    no_hello_reply = smtp_replies.NO_LHLO

    async def smtp_HELO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """HELO: refused, so that no SMTP client takes this for its server (RFC 2033 4.1)."""
        await self._send_reply(smtp_replies.IS_LMTP)

    async def smtp_EHLO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """EHLO: refused as HELO is."""
        await self._send_reply(smtp_replies.IS_LMTP)

    async def smtp_LHLO(self, hostname: str) -> None:  # noqa: N802 - aiosmtpd finds commands by this name
        """LHLO: begin a session, as EHLO does in SMTP."""
        await super().smtp_EHLO(hostname)

    async def _learn_or_deliver(self, mail: MailTransaction, incoming: IncomingMessage) -> DataReplies:
        try:
            return await super()._learn_or_deliver(mail, incoming)
        except (ConnectionError, EOFError):
            raise
        except Exception:  # noqa: BLE001 - whatever it is, each recipient gets a reply
            _log.exception("%s: a message failed", self._listener_name)
            return DataReplies((TEMPORARY_FAILURE,))

    async def _send_data_replies(self, mail: MailTransaction, data_replies: DataReplies) -> None:
        rendered = (reply.render() for reply in data_replies.per_recipient(len(mail.recipients)))
        await self.push(b"\r\n".join(rendered))
