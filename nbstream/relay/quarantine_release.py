"""The release of a message from the quarantine: it goes to the next hop with the envelope that it came with.

Rules: the file is removed only after the next hop's 250. It is marked, durably, before the next hop gets the
message. A release that ends without a reply leaves the mark, and from then on the message is delivered again only
on purpose. In this way nothing is lost, and nothing is doubled unknowingly. The caller has locked the file
(``quarantine.locked``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbstream.errors import NotReleased, RelayRefused, RelayUnavailable
from nbstream.relay import maildir_files, quarantine

if TYPE_CHECKING:
    from nbstream.relay.next_hop import Envelope, NextHop, Transaction
    from nbstream.relay.quarantine import QuarantinedMessage

IN_DOUBT_TEXT = "may have been delivered: a release ended before the next hop's answer"


async def release_message(
    message: QuarantinedMessage, envelope: Envelope, content: bytes, next_hop: NextHop
) -> None:
    """Deliver ``content`` (CRLF line ends) and remove the file.

    Raises ``RelayRefused`` with the next hop's reply or ``RelayUnavailable``, and the message waits on. Raises
    ``NotReleased`` where no reply came or the file cannot be changed.
    """
    transaction = await next_hop.begin(envelope.sender)
    try:
        await _send_recipients(transaction, envelope)
        marked = await asyncio.to_thread(_apply_transition, quarantine.mark_in_doubt, message)
    except BaseException:
        await transaction.abort()
        raise
    try:
        replies = await transaction.data(content)
    except RelayUnavailable as error:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({error})") from error
    if not replies.accepted:
        reply = replies.single
        if not message.in_doubt:  # a refusal now does not say that it was not delivered before
            await asyncio.to_thread(_apply_transition, quarantine.mark_waiting, marked)
        raise RelayRefused(reply.code, reply.text)
    await asyncio.to_thread(_apply_transition, _remove_file, marked)


async def _send_recipients(transaction: Transaction, envelope: Envelope) -> None:
    """Send all recipients to the next hop; a refused one ends the release, since the file is for all of them."""
    for recipient in envelope.recipients:
        reply = await transaction.rcpt(recipient)
        if not reply.accepted:
            raise RelayRefused(reply.code, reply.text)


def _remove_file(message: QuarantinedMessage) -> QuarantinedMessage:
    message.path.unlink()
    maildir_files.sync_folder(message.path.parent)
    return message


def _apply_transition(
    transition: quarantine.QuarantineTransition, message: QuarantinedMessage
) -> QuarantinedMessage:
    try:
        return transition(message)
    except OSError as error:
        raise NotReleased(f"its file cannot be changed: {error}") from error
