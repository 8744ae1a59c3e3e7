"""Thresholds, actions, recipient rules and header fields, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.filter import FilterPolicy
from nbstream.mail import mime
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.header import HeaderPolicy, MessageReader
from nbstream.policy.own_models.settings import make_names
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.sender_lists import EvidenceReader, ListEntry, ListKind, OwnerList, SenderLists
from nbstream.policy.thresholds import ThresholdPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbstream.daemon.config import Settings
    from nbstream.policy.own_models.names import OwnModelNames
    from nbstream.policy.settings import VerdictSettings


def make_policy(settings: Settings) -> ThresholdPolicy:
    """Return the thresholds for recipients without a rule."""
    return _make_policy(settings.verdict)


def _make_policy(verdict: VerdictSettings) -> ThresholdPolicy:
    return ThresholdPolicy(verdict.unsure, verdict.spam, verdict.reject, verdict.max_false_positive_rate)


def make_rules(settings: Settings) -> RecipientRules:
    """Return the policies and actions by recipient."""
    rules = [
        RecipientRule.at_position(position, rule.match, _make_policy(rule.verdict), rule.actions)
        for position, rule in enumerate(settings.recipients)
    ]
    return RecipientRules.build(make_policy(settings), settings.actions, rules)


def make_sender_lists(
    settings: Settings, stored: Mapping[str, OwnerList], user_of: Callable[[str], str]
) -> SenderLists:
    """Return the sender lists of the settings, and those that are ``stored``, by owner.

    ``user_of`` returns the address of the user behind that of a recipient.
    """
    kinds = ((ListKind.ALLOW, settings.lists.allow), (ListKind.BLOCK, settings.lists.block))
    entries = [ListEntry(kind, SenderPattern.parse(sender)) for kind, senders in kinds for sender in senders]
    return SenderLists(OwnerList(entries), stored, make_evidence_reader(settings), user_of)


def make_evidence_reader(settings: Settings) -> EvidenceReader:
    """Return what reads who sent a message, and what proves it."""
    return EvidenceReader(frozenset(settings.trusted_authserv_ids), settings.own_received_fields)


def make_filter_policy(settings: Settings) -> FilterPolicy:
    """Return what the filter decides by: all policies, and how much has to be learned before they hold."""
    others = tuple(rule.policy for rule in make_rules(settings).rules)
    min_learned = settings.model.messages_needed
    return FilterPolicy(make_policy(settings), min_learned, others, settings.model.kinds)


def make_header_policy(settings: Settings) -> HeaderPolicy:
    """Return what is done to the header of checked mail."""
    return HeaderPolicy(settings.model.name, settings.headers)


def make_message_reader(settings: Settings) -> MessageReader:
    """Return what makes messages of bytes, the same for every way in."""
    listeners = settings.listeners
    marks_mail = any((listeners.smtp, listeners.lmtp, listeners.milter))
    return MessageReader(mime.MessageLimits(), make_header_policy(settings).marks, marks_mail)


def make_own_model_names(settings: Settings) -> OwnModelNames:
    """Return what finds the own models of an address, and its user.

    Raises ``ConfigError`` where the aliases cannot be read.
    """
    return make_names(settings.models, settings.own_models)
