"""The release of a message from the quarantine: it goes to the next hop with the envelope that it came with.

Rules: the file is removed only after the next hop's 250. It is marked, durably, before the next hop gets the
message. A release that ends without a reply leaves the mark, and from then on the message is delivered again only
on purpose. Where the next hop answers each recipient (LMTP), the message goes to one of them at a time, and the
file waits on for the others. In this way nothing is lost, and nothing is doubled unknowingly. The caller has
locked the file (``quarantine.locked``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbstream.errors import InputError, NotReleased, RelayRefused, RelayUnavailable
from nbstream.relay import maildir_files, quarantine

if TYPE_CHECKING:
    from nbstream.relay.next_hop import Envelope, NextHop, SmtpPath, Transaction
    from nbstream.relay.quarantine import QuarantinedMessage

IN_DOUBT_TEXT = "may have been delivered: a release ended before the next hop's answer"


async def release_message(
    message: QuarantinedMessage, envelope: Envelope, content: bytes, next_hop: NextHop
) -> QuarantinedMessage | None:
    """Deliver ``content`` (CRLF line ends) and remove the file.

    Return the file that takes its place, not locked, where there are recipients to whom the message has yet to be
    delivered. Raises ``RelayRefused`` with the next hop's reply or ``RelayUnavailable``, and the message waits on.
    Raises ``NotReleased`` where no reply came or the file cannot be changed.
    """
    count = 1 if next_hop.answers_each_recipient else len(envelope.recipients)
    recipients, others = envelope.recipients[:count], envelope.recipients[count:]
    transaction = await next_hop.begin(envelope.sender)
    try:
        await _send_recipients(transaction, recipients)
        marked = await asyncio.to_thread(_apply_transition, quarantine.mark_in_doubt, message)
    except BaseException:
        await transaction.abort()
        raise
    try:
        replies = await transaction.data(content)
    except RelayUnavailable as error:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({error})") from error
    reply = replies.single
    if not reply.accepted:
        if not message.in_doubt:  # a refusal now does not say that it was not delivered before
            await asyncio.to_thread(_apply_transition, quarantine.mark_waiting, marked)
        raise RelayRefused(reply.code, reply.text)
    waiting = await _write_file_for(others, marked) if others else None
    await asyncio.to_thread(_apply_transition, _remove_file, marked)
    return waiting


async def _write_file_for(recipients: tuple[SmtpPath, ...], message: QuarantinedMessage) -> QuarantinedMessage:
    """Write the file that waits for these recipients. Raises ``NotReleased``."""
    try:
        draft, waiting = await asyncio.to_thread(quarantine.draft_for_recipients, message, recipients)
        failure = await maildir_files.write_drafts([draft])
    except (InputError, RelayUnavailable) as error:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({error})") from error
    if failure:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({failure})")
    return waiting


async def _send_recipients(transaction: Transaction, recipients: tuple[SmtpPath, ...]) -> None:
    """Send the recipients to the next hop; a refused one ends the release, since the file is for all of them."""
    for recipient in recipients:
        reply = await transaction.rcpt(recipient)
        if not reply.accepted:
            raise RelayRefused(reply.code, reply.text)


def _remove_file(message: QuarantinedMessage) -> QuarantinedMessage:
    quarantine.remove(message)
    return message


def _apply_transition(
    transition: quarantine.QuarantineTransition, message: QuarantinedMessage
) -> QuarantinedMessage:
    try:
        return transition(message)
    except OSError as error:
        raise NotReleased(f"its file cannot be changed: {error}") from error
