"""The mail of one user, as the self-service page shows it: recently checked and quarantined messages.

Rules: everything is looked up by the user's address, and what comes back has no recipient in it, so that no view
can show one. A message to others does not exist. What was stored at a check may be about another recipient: if
there were several, and in each explanation, the filter checks again, for this user alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.bayes.clues import TokenClues
from nbstream.delivery import quarantine
from nbstream.errors import InputError
from nbstream.policy.feedback_source import user_of_actor
from nbstream.store.recent.message_rows import RowFilter, is_named_by_sender
from nbstream.web.users.held_mail import read_held_message, recipients_of

if TYPE_CHECKING:
    from nbstream.delivery.quarantine import Quarantine, QuarantineFile
    from nbstream.filter import LearnableMessage
    from nbstream.policy.check import Explanation
    from nbstream.policy.envelope import RememberedEnvelope
    from nbstream.server.runtime import Runtime
    from nbstream.store.recent.message_rows import MessageRow, RowPosition, RowSearch
    from nbstream.web.users.held_mail import HeldMessage, UserOf


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """A message of a user. ``sender`` and ``subject`` are what its header says, decoded; None where nobody knows.

    ``verdict`` is None where it was another's, and cannot be found out again. ``label`` is what the user has
    called it.
    """

    id: str
    at: float
    sender: str | None
    subject: str | None
    verdict: str | None
    label: str | None


@dataclass(frozen=True, slots=True)
class OwnExplanation:
    """How the filter of a user judges a message; ``is_corrected``: their own model contributes to it."""

    explanation: Explanation
    is_corrected: bool


@dataclass(frozen=True, slots=True)
class OwnMailPage:
    """Some checked messages of a user, the newest first; the next page begins at ``older``, None for no more."""

    messages: Sequence[OwnMessage]
    older: RowPosition | None


@dataclass(eq=False, kw_only=True, slots=True)
class OwnMail:
    """The mail of all users; each method is about that of the one with this ``address``, normalized.

    ``runtime`` returns what is in force now, ``user_of`` the address of the user to whom mail for an address
    belongs, and ``address_of`` that of a user by their name, None for one who may not log in.
    """

    rows: RowSearch
    quarantined: Quarantine
    runtime: Callable[[], Runtime]
    user_of: UserOf
    address_of: Callable[[str], str | None]
    _one_reader: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1), init=False)

    async def checked(self, address: str, position: RowPosition | None, count: int) -> OwnMailPage:
        """Return the messages that were checked for the user, those before ``position``."""
        wanted = RowFilter(recipient=address, user_of=self.user_of)
        page = await self.rows.search(wanted, position, count)
        own = [row for row in page.rows if self._is_of(row, address)]  # an address may belong to another user
        return OwnMailPage([await self._own(address, row) for row in own], page.next_position)

    async def waiting(self, address: str, count: int) -> Sequence[HeldMessage]:
        """Return what waits for the user, the newest first, each message once. Raises ``InputError``."""

        def read() -> Sequence[HeldMessage]:
            by_id: dict[str, HeldMessage] = {}
            for file in self.quarantined.messages_for(address):
                if len(by_id) == count:
                    break
                if file.id not in by_id and self._is_for(file, address):
                    with suppress(InputError):  # released just now
                        by_id[file.id] = read_held_message(file)
            return list(by_id.values())

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def find(self, address: str, message_id: str) -> OwnMessage | None:
        """Return a checked message of the user; None where there is none with this id."""
        rows = await self.rows.rows([message_id])
        row = rows.get(message_id)
        return await self._own(address, row) if row and self._is_of(row, address) else None

    async def label(self, address: str, message_id: str) -> str | None:
        """Return what the user themselves has called the message. Raises ``StoreUnavailable``."""
        (own_filter,) = await self.runtime().filters_for([address])
        entry = await own_filter.parts.model.entry(message_id)
        # Others may teach the same model.
        teachers = (entry.actor, self.address_of(user_of_actor(entry.actor))) if entry else ()
        return entry.label if entry and address in teachers else None

    async def explain(self, address: str, message_id: str) -> OwnExplanation | None:
        """Return what the filter of the user thinks of their message now; None where too little is remembered."""
        runtime = self.runtime()
        checked = await runtime.spam_filter.recall(message_id)
        if checked is None:
            return None
        (own_filter,) = await runtime.filters_for([address])
        check = await own_filter.score_tokens(checked.key, checked.tokens)
        decided = await runtime.spam_filter.decide_by_rule(check, runtime.rules.rule_of(address))
        is_corrected = isinstance(check.clues, TokenClues) and any(check.clues.own_levels)
        return OwnExplanation(decided.explain(time.time()), is_corrected)

    async def learnable(self, address: str, message_id: str) -> LearnableMessage | None:
        """Return what the user can teach of a message to them, or None. Raises ``InputError``."""
        if await self.find(address, message_id) and (
            checked := await self.runtime().spam_filter.recall(message_id)
        ):
            return checked

        def read() -> LearnableMessage | None:
            own = (file for file in self.quarantined.messages_for(address) if file.id == message_id)
            file = next((file for file in own if self._is_for(file, address)), None)
            reader = self.runtime().message_reader
            return reader.read_incoming(quarantine.read_message(file)[1]) if file else None

        async with self._one_reader:
            return await asyncio.to_thread(read)

    async def _own(self, address: str, row: MessageRow) -> OwnMessage:
        envelope = row.envelope
        assert envelope is not None  # the user is in it
        verdict: str | None = row.verdict
        if envelope.recipient_count != 1:
            own = await self.explain(address, row.id)
            verdict = own.explanation.verdict if own else None
        label = await self.label(address, row.id)
        sender = self._sender_for(address, envelope)
        return OwnMessage(row.id, row.checked_at, sender, envelope.subject, verdict, label)

    def _sender_for(self, address: str, envelope: RememberedEnvelope) -> str | None:
        """Return From, which every copy with this id has; else the sender of the envelope.

        Of one that names another recipient (VERP), only the domain is returned.
        """
        if envelope.header_from:
            return envelope.header_from
        sender = envelope.sender or ""
        others = [other for other in envelope.recipients if self.user_of(other) != address]
        if any(is_named_by_sender(other, sender) for other in others):
            return "@" + sender.rpartition("@")[2]
        return envelope.sender

    def _is_of(self, row: MessageRow, address: str) -> bool:
        recipients = row.envelope.recipients if row.envelope else ()
        return any(self.user_of(recipient) == address for recipient in recipients)

    def _is_for(self, file: QuarantineFile, address: str) -> bool:
        try:
            return address in recipients_of(quarantine.read_note(file), self.user_of)
        except InputError:  # released just now, or damaged
            return False
