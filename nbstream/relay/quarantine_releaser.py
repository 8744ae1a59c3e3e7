"""The release of quarantined mail as a whole, for every place where a person may ask for it.

Rules: a release teaches ham first, which may be repeated, and delivers last, which may not: what interrupts it
before that is mended by the same release again. The file is locked from the first to the last step. What blocks
or computes goes on in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.errors import ReleaseInDoubt
from nbstream.mail.header_edits import edit_message
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.verdict import Verdict
from nbstream.relay import quarantine
from nbstream.relay.quarantine_release import IN_DOUBT_TEXT, release_message

if TYPE_CHECKING:
    from nbstream.filter import Check, Lesson
    from nbstream.mail.message import Message
    from nbstream.policy.header_policy import HeaderPolicy
    from nbstream.policy.incoming_message import MessageReader
    from nbstream.relay.next_hop import NextHop
    from nbstream.relay.quarantine import QuarantinedMessage


@dataclass(frozen=True, slots=True)
class QuarantineReleaser:
    """Releases quarantined messages to ``next_hop``; ``learn_ham`` teaches that a message is ham."""

    learn_ham: Callable[[Message], Awaitable[Lesson]]
    message_reader: MessageReader
    header_policy: HeaderPolicy
    next_hop: NextHop

    async def release(self, entry: QuarantinedMessage, *, again: bool = False) -> Lesson:
        """Teach the message as ham, deliver it to all recipients of the file, and remove the file.

        A next hop that answers each recipient (LMTP) gets one after the other; where it refuses one, the file
        waits on for this one and those after it. ``again`` delivers a message that may have been delivered
        already; else ``ReleaseInDoubt`` is raised for it. Raises what ``learn_ham``, ``quarantine.locked`` and
        ``release_message`` raise; then the message waits on, or is in doubt.
        """
        lesson, rest = await self._release_file(entry, again=again)
        while rest:
            _, rest = await self._release_file(rest, again=False)
        return lesson

    async def _release_file(
        self, entry: QuarantinedMessage, *, again: bool
    ) -> tuple[Lesson, QuarantinedMessage | None]:
        """Release one file; return the file that waits for other recipients, or None."""
        with quarantine.locked(entry):
            if entry.in_doubt and not again:
                raise ReleaseInDoubt(IN_DOUBT_TEXT)
            note, content = await asyncio.to_thread(quarantine.read_message, entry)
            message = await asyncio.to_thread(self.message_reader.read_incoming, content)
            lesson = await self.learn_ham(message)
            edited = await asyncio.to_thread(self._edit, content, note.id, lesson.after)
            rest = await release_message(entry, note.envelope, edited, self.next_hop)
        return lesson, rest

    def _edit(self, content: bytes, message_id: str, check: Check) -> bytes:
        """Return the message with a header that says that it was released."""
        released = replace(check, id=message_id, verdict=Verdict.HAM, reason="released from the quarantine")
        edits = self.header_policy.release_edits(released)
        return b"".join(edit_message(normalize_line_ends(content), edits))
