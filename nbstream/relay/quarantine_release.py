"""Out of the quarantine: a message goes to the next hop with the envelope that it came with.

Rules: the file goes only after the hop's 250. Before the hop is handed the message the file is marked, durably. A
release that ends without an answer leaves the mark, and then nobody delivers it again but on purpose. So nothing
is lost, and nothing is doubled unknowingly. Whoever calls holds the file (``quarantine.locked``).
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


async def release_message(held: QuarantinedMessage, envelope: Envelope, content: bytes, next_hop: NextHop) -> None:
    """Deliver ``content`` (CRLF line ends) and remove the file.

    Raises RelayRefused with the hop's answer or RelayUnavailable, and the file waits on; NotReleased where its
    answer did not come or the file cannot be changed.
    """
    transaction = await next_hop.begin(envelope.sender)
    try:
        await _send_recipients(transaction, envelope)
        marked = await asyncio.to_thread(_apply_transition, quarantine.mark_in_doubt, held)
    except BaseException:
        await transaction.abort()
        raise
    try:
        reply = await transaction.data(content)
    except RelayUnavailable as error:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({error})") from error
    if not reply.accepted:
        if not held.in_doubt:  # a refusal now does not say that it was not delivered before
            await asyncio.to_thread(_apply_transition, quarantine.mark_waiting, marked)
        raise RelayRefused(reply.code, reply.text)
    await asyncio.to_thread(_apply_transition, _remove_file, marked)


async def _send_recipients(transaction: Transaction, envelope: Envelope) -> None:
    """Tell the hop all recipients; one that it refuses ends the release, since the file is for all of them."""
    for recipient in envelope.recipients:
        reply = await transaction.rcpt(recipient)
        if not reply.accepted:
            raise RelayRefused(reply.code, reply.text)


def _remove_file(held: QuarantinedMessage) -> QuarantinedMessage:
    held.path.unlink()
    maildir_files.sync_folder(held.path.parent)
    return held


def _apply_transition(change: quarantine.QuarantineTransition, held: QuarantinedMessage) -> QuarantinedMessage:
    try:
        return change(held)
    except OSError as error:
        raise NotReleased(f"its file cannot be changed: {error}") from error
