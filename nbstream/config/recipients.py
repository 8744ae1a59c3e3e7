"""The settings of a recipient rule."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from nbstream.config.actions import ActionsSettings
from nbstream.config.section import Section
from nbstream.config.values import read_address_pattern
from nbstream.config.verdict import VerdictSettings
from nbstream.policy.address_patterns import AddressPattern


class RecipientRuleSettings(Section):
    """Thresholds and actions for the recipients that a pattern matches. Other keys are inherited from the top."""

    match: Annotated[AddressPattern, BeforeValidator(read_address_pattern)]
    """The pattern of the addresses for which the rule holds. ``*`` is any characters, ``?`` is one character,
    every other character is itself, and upper and lower case are the same.
    """

    verdict: VerdictSettings = VerdictSettings()
    """The thresholds for these recipients, with the keys of the section ``verdict``. A key that is not given is
    inherited from there.
    """

    actions: ActionsSettings = ActionsSettings()
    """The actions for these recipients, with the keys of the section ``actions``. A key that is not given is
    inherited from there.
    """
