"""The messages of one user that were checked lately, as the self-service page shows them.

Rules: everything is looked up by the user's address, and what comes back has no recipient in it, so that no view
can show one. A message to others does not exist. What was stored at a check may be about another recipient: if
there were several, and in each explanation, the filter checks again, for this user alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.clues import TokenClues
from nbstream.errors import StoreIncompatible
from nbstream.policy.feedback_source import user_of_actor
from nbstream.policy.verdict import Verdict
from nbstream.store.recent.message_rows import RowFilter, is_named_by_sender
from nbstream.web.texts import TEXTS
from nbstream.web.users.sentences import describe

if TYPE_CHECKING:
    from nbstream.filter import Check
    from nbstream.policy.envelope import RememberedEnvelope
    from nbstream.server.runtime import Runtime
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.store.recent.message_rows import MessageRow, RowPage, RowPosition, RowSearch
    from nbstream.web.quarantine import UserOf


class OwnMessage(NamedTuple):
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


@dataclass(eq=False, kw_only=True, slots=True)
class OwnMail:
    """The mail of all users; each method is about that of the one with this ``address``, normalized.

    ``runtime`` returns what is in force now, ``user_of`` the address of the user to whom mail for an address
    belongs, and ``address_of`` that of a user by their name, None for one who may not log in.
    """

    rows: RowSearch
    runtime: Callable[[], Runtime]
    user_of: UserOf
    address_of: Callable[[str], str | None]

    async def checked(self, address: str, position: RowPosition | None, count: int) -> RowPage:
        """Return the rows of the messages that were checked for the user, those before ``position``."""
        return await self.rows.search(RowFilter(recipient=address, user_of=self.user_of), position, count)

    async def own_messages(self, address: str, rows: Iterable[MessageRow]) -> Sequence[OwnMessage]:
        """Return those of these messages that are the user's."""
        return [await self._own(address, row) for row in rows if self._is_of(row, address)]

    async def find(self, address: str, message_id: str) -> OwnMessage | None:
        """Return a checked message of the user; None where there is none with this id."""
        rows = (await self.rows.rows([message_id])).values()
        return next(iter(await self.own_messages(address, rows)), None)

    async def label(self, address: str, message_id: str) -> str | None:
        """Return what the user themselves has called the message. Raises ``StoreUnavailable``."""
        (own_filter,) = await self.runtime().filters_for([address])
        entry = await own_filter.parts.model.entry(message_id)
        # Others may teach the same model.
        teachers = (entry.actor, self.address_of(user_of_actor(entry.actor))) if entry else ()
        return entry.label if entry and address in teachers else None

    async def recall(self, message_id: str) -> CheckedMessage | None:
        """Return what is remembered of any checked message."""
        return await self.runtime().spam_filter.recall(message_id)

    async def why(self, address: str, message_id: str, language: str) -> Sequence[str]:
        """Return why the user's message is called what it is; nothing where too little is remembered."""
        check = await self._check(address, message_id)
        if check is None:
            return ()
        is_corrected = isinstance(check.clues, TokenClues) and any(check.clues.own_levels)
        sentences = describe(check.explain(time.time()), language, is_corrected=is_corrected)
        return [*await self._why_listed(message_id, language), *sentences]

    async def _why_listed(self, message_id: str, language: str) -> Sequence[str]:
        """Return the sentence that a sender list decided; none where it did not.

        A message to several recipients has none: the list may be that of another recipient.
        """
        envelope = next((row.envelope for row in (await self.rows.rows([message_id])).values()), None)
        checked = await self.recall(message_id)
        if checked is None or not checked.is_listed or envelope is None or envelope.recipient_count != 1:
            return ()
        return (TEXTS[language]["why_list" if Verdict(checked.verdict).is_spam else "why_allowed"],)

    async def _check(self, address: str, message_id: str) -> Check | None:
        """Return how the filter of the user judges their message now; None where too little is remembered."""
        runtime = self.runtime()
        try:
            checked = await self.recall(message_id)
        except StoreIncompatible:
            return None
        if checked is None:
            return None
        (own_filter,) = await runtime.filters_for([address])
        check = await own_filter.score_tokens(checked.key, checked.tokens)
        return await runtime.spam_filter.decide_by_rule(check, runtime.rules.rule_of(address))

    async def _own(self, address: str, row: MessageRow) -> OwnMessage:
        envelope = row.envelope
        assert envelope is not None  # the user is in it
        verdict: str | None = row.verdict
        if envelope.recipient_count != 1:
            check = await self._check(address, row.id)
            verdict = check.verdict if check else None
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
