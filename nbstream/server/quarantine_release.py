"""The release of a message from the quarantine: it goes to the next hop with the envelope that it came with.

Rules: the file is removed only after the next hop's 250. It is marked, durably, before the next hop gets the
message. A release that ends without a reply leaves the mark, and from then on the message is delivered again only
on purpose. Where the next hop answers each recipient (LMTP), the message goes to one of them at a time, and where
it is released for one recipient, to them alone; the file stays for the others. In this way nothing is lost, and
nothing is doubled unknowingly. The caller has locked the file (``quarantine.locked``).
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nbstream.delivery import maildir, quarantine
from nbstream.errors import InputError, NbstreamError, NotReleased, RelayRefused, RelayUnavailable, ReleaseInDoubt
from nbstream.mail.header_edits import edit_message
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.verdict import Verdict
from nbstream.tokens import html

if TYPE_CHECKING:
    from nbstream.delivery.next_hop import Envelope, NextHop, SmtpPath, Transaction
    from nbstream.delivery.quarantine import QuarantineFile
    from nbstream.filter import Check, FeedbackResult
    from nbstream.mail.message import Message
    from nbstream.policy.header import HeaderPolicy, MessageReader


IN_DOUBT_TEXT = "may have been delivered: an earlier release ended before the next hop replied"


async def release_message(
    message: QuarantineFile,
    envelope: Envelope,
    content: bytes,
    next_hop: NextHop,
    recipients: Sequence[SmtpPath] = (),
) -> QuarantineFile | None:
    """Deliver ``content`` (CRLF line ends) and remove the file.

    With ``recipients``, some of those of the envelope, it goes to them alone. Return the file that takes its
    place, not locked, where there are recipients to whom the message has yet to be delivered. Raises
    ``RelayRefused`` with the next hop's reply or ``RelayUnavailable``, and the message waits on. Raises
    ``NotReleased`` where no reply came or the file cannot be changed.
    """
    recipients = recipients or envelope.recipients
    if next_hop.answers_each_recipient:
        recipients = recipients[:1]
    others = tuple(path for path in envelope.recipients if path not in recipients)
    transaction = await next_hop.begin(envelope.sender)
    try:
        await _send_recipients(transaction, recipients)
        marked = await asyncio.to_thread(quarantine.mark_in_doubt, message)
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
            await asyncio.to_thread(quarantine.mark_waiting, marked)
        raise RelayRefused(reply.code, reply.text)
    waiting = await _write_file_for(others, marked) if others else None
    await asyncio.to_thread(quarantine.remove, marked)
    return waiting


async def _write_file_for(recipients: tuple[SmtpPath, ...], message: QuarantineFile) -> QuarantineFile:
    """Write the file that waits for these recipients. Raises ``NotReleased``."""
    try:
        draft, waiting = await asyncio.to_thread(quarantine.draft_for_recipients, message, recipients)
        failure = await maildir.write_drafts([draft])
    except (InputError, RelayUnavailable) as error:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({error})") from error
    if failure:
        raise NotReleased(f"{IN_DOUBT_TEXT} ({failure})")
    return waiting


async def _send_recipients(transaction: Transaction, recipients: Sequence[SmtpPath]) -> None:
    """Send the recipients to the next hop; a refused one ends the release, since it is for all of them."""
    for recipient in recipients:
        reply = await transaction.rcpt(recipient)
        if not reply.accepted:
            raise RelayRefused(reply.code, reply.text)


# The release of quarantined mail as a whole, for every place where a person may ask for it.
#
# Rules: a release teaches ham first, which may be repeated, and delivers last, which may not: what interrupts it
# before that is mended by the same release again. The file is locked from the first to the last step. What
# blocks or computes goes on in a thread.


class QuarantineReleaser(NamedTuple):
    """Releases quarantined messages to ``next_hop``; ``learn_ham`` teaches that a message is ham."""

    learn_ham: Callable[[Message], Awaitable[FeedbackResult]]
    message_reader: MessageReader
    header_policy: HeaderPolicy
    next_hop: NextHop

    async def release(
        self,
        files: Iterable[QuarantineFile],
        *,
        again: bool = False,
        is_for: Callable[[str], bool] = lambda _: True,
    ) -> tuple[list[FeedbackResult], NbstreamError | None]:
        """Teach the message in these files as ham, deliver it to all recipients of each, and remove the files.

        Return the lessons, and the error that ended the release: None where nothing did. After an error the
        message waits on, or is in doubt, and may have been taught all the same. The errors are those that
        ``learn_ham``, ``quarantine.locked`` and ``release_message`` raise, and the two named here.

        With ``is_for`` it is delivered to those alone whose addresses that is true of, and the file waits on for
        the others; the error is ``NotReleased`` where it does not wait for any of them. A next hop that
        answers each recipient (LMTP) gets one after the other; where it refuses one, the file waits on for this
        one and those after it. ``again`` delivers a message that may have been delivered already; else the error
        is ``ReleaseInDoubt`` for it.
        """
        lessons: list[FeedbackResult] = []
        waiting = deque(files)
        try:
            while waiting:
                file = waiting.popleft()
                with quarantine.locked(file):
                    if file.in_doubt and not again:
                        raise ReleaseInDoubt(IN_DOUBT_TEXT)
                    note, content = await asyncio.to_thread(quarantine.read_message, file)
                    wanted = [path for path in dict.fromkeys(note.envelope.recipients) if is_for(path.address)]
                    if not wanted:
                        raise NotReleased("is not quarantined for this recipient")
                    message = await asyncio.to_thread(self.message_reader.read_incoming, content)
                    lessons.append(await self.learn_ham(message))
                    edited = await asyncio.to_thread(self._edit, content, note.id, lessons[-1].after)
                    rest = await release_message(file, note.envelope, edited, self.next_hop, wanted)
                if rest and self.next_hop.answers_each_recipient and len(wanted) > 1:
                    waiting.appendleft(rest)
        except NbstreamError as error:
            return lessons, error
        return lessons, None

    def _edit(self, content: bytes, message_id: str, check: Check) -> bytes:
        """Return the message with a header that says that it was released."""
        released = replace(check, id=message_id, verdict=Verdict.HAM, reason="released from the quarantine")
        edits = self.header_policy.release_edits(released)
        return b"".join(edit_message(normalize_line_ends(content), edits))


# What people are shown of a message: some fields of its header, and its text, within limits.
#
# Rules: HTML is reduced to the text that a reader would see, and no attachment is shown. The characters are those
# of the message: whoever shows them makes them harmless, in the way that a terminal or a browser needs.

_SHOWN_FIELDS = ("from", "to", "cc", "date", "subject")
_SHOWN_CHARACTERS = 20_000
_SHOWN_TYPES = frozenset({"text/plain", "text/html"})
_TAG = re.compile(r"<[!/?a-zA-Z][^>]*")


class ShownText(NamedTuple):
    """The shown ``fields`` (name and decoded text, in their order) and the text of each part.

    ``is_cut``: the message has more text than the parts here, which have 20,000 characters at most.
    """

    fields: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]
    is_cut: bool


def shown_text(message: Message) -> ShownText:
    """Return what is shown of a message; it takes as long as parsing the message does."""
    fields = tuple(
        (field.name.capitalize(), field.text) for field in message.fields if field.name in _SHOWN_FIELDS
    )
    parts: list[str] = []
    room = _SHOWN_CHARACTERS
    for part in message.parts:
        if part.content_type not in _SHOWN_TYPES or part.disposition == "attachment":
            continue
        text = part.text
        if part.content_type == "text/html":  # what finds the tags knows them in lower case alone
            text = html.visible_text(_TAG.sub(lambda tag: tag[0].lower(), text))
        if room:
            parts.append(text[:room])
        if text[room:].strip():
            return ShownText(fields, tuple(parts), is_cut=True)
        room = max(0, room - len(text))
    return ShownText(fields, tuple(parts), is_cut=False)
