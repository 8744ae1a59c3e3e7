"""The settings of all listeners, turned into the objects that they use; a reload replaces them as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nbstream.mail.addresses import canonical_address, parse_address
from nbstream.policy.sender_lists import NO_LISTS, SenderLists
from nbstream.server.connections import Teachers

if TYPE_CHECKING:
    import ssl

    from nbstream.filter import Check, Filter
    from nbstream.filter.own_models.filters import OwnFilters
    from nbstream.mail.message import Message
    from nbstream.policy.header import HeaderPolicy, MessageReader
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.sender_lists import Sender

_NOBODY = Teachers()


class FeedbackAddresses(NamedTuple):
    """The addresses at which mail is learned, by the names of the classes."""

    by_class: Mapping[str, str]

    def label_of(self, address: str) -> str | None:
        """Return the class that ``address`` stands for, however it is spelled; None for every other one."""
        wanted = canonical_address(address)
        return next((name for name, own in self.by_class.items() if canonical_address(own) == wanted), None)

    @property
    def all(self) -> frozenset[str]:
        """All addresses, in their canonical form."""
        return frozenset(map(canonical_address, self.by_class.values()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """Everything of a listener's work that the configuration decides and a reload may change.

    It is the settings turned into objects, and has nothing to do with the event loop. ``spam_filter`` has the
    policies in force, and ``rules`` are the policies and actions by recipient. ``teachers`` are those who may
    teach, by the name of the listener. ``message_reader`` makes messages of bytes, and ``header_policy`` says what
    changes in the header of mail. ``tls_contexts`` have the certificates, by the name of the listener; a listener
    without TLS has none. ``passes_on_failure``: mail whose check failed passes unmarked, else it is deferred.
    ``sender_lists`` are the senders that always or never pass. ``own_filters`` finds the filters of recipients; it
    is None where all have the common model. ``note_sent`` gets each message that a user of ours sends, their name
    and the recipients, and returns at once.
    """

    spam_filter: Filter
    rules: RecipientRules
    teachers: Mapping[str, Teachers]
    feedback_addresses: FeedbackAddresses
    message_reader: MessageReader
    header_policy: HeaderPolicy
    passes_on_failure: bool = True
    tls_contexts: Mapping[str, ssl.SSLContext] = field(default_factory=dict)
    sender_lists: SenderLists = NO_LISTS
    own_filters: OwnFilters | None = None
    note_sent: Callable[[Message, str, Sequence[str]], object] = lambda _message, _user, _recipients: None

    async def filters_for(self, recipients: Sequence[str]) -> Sequence[Filter]:
        """Return the filter that checks mail for each of these addresses; the very same one for the same model."""
        if self.own_filters is None:
            return [self.spam_filter] * len(recipients)
        return await self.own_filters.for_recipients(recipients)

    def note_if_sent(self, message: Message, sender: Sender, recipients: Sequence[str], check: Check) -> None:
        """Note a message that a user of ours sends, unless it is called spam: their account may be stolen."""
        if sender.login and sender.is_vouched_for and not check.verdict.is_spam and not check.is_canary:
            self.note_sent(message, self.address_of_login(sender.login) or sender.login, recipients)

    def address_of_login(self, login: str) -> str:
        """Return the address of a user by their login name: an address, or an alias of one.

        Empty for a login of which nobody knows the address.
        """
        address = self.own_filters.names.user_of(login) if self.own_filters else login
        return login if "@" in login else address if "@" in address else ""

    def knows_teacher(self, user: str) -> bool:
        """Return whether it is known whose lesson that of ``user`` is; without own models it is everybody's."""
        return self.own_filters is None or bool(parse_address(self.own_filters.names.user_of(user))[1])

    async def filter_of_teacher(self, user: str, label: str | None, source: str) -> Filter:
        """Return the filter that learns what the user of this address teaches; empty for nobody in particular.

        Where there is none now, feedback with this ``label`` from this ``source`` has failed, and is reported so.
        Raises ``StoreUnavailable`` and ``StoreIncompatible``.
        """
        if self.own_filters is None or not user:
            return self.spam_filter
        try:
            return await self.own_filters.for_user(user)
        except Exception as error:
            self.spam_filter.report_failed_feedback(label, source, error)
            raise

    def teachers_through(self, listener: str) -> Teachers:
        """Return who may teach through the listener of that name."""
        return self.teachers.get(listener, _NOBODY)
