"""Names of header fields that may be written."""

from __future__ import annotations

import pytest

from nbstream.mail.added_fields import is_added_on_arrival
from nbstream.policy.settings import read_field_name


@pytest.mark.parametrize("name", ["X-Spam", "X-Spam-Flag", "X-Site-Verdict", "Spam", "x-nbstream"])
def test_a_name_that_only_filters_use_is_allowed(name: str) -> None:
    assert read_field_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("Subject", "from", "RECEIVED", "DKIM-Signature", "Content-Type", "List-Id", "ARC-Seal", "X-Status"),
        *("", "X Spam", "X-Späm", "X:", "-X", "X" * 61, "X-\r\n"),
    ],
)
def test_a_name_that_others_act_on_or_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        read_field_name(name)


@pytest.mark.parametrize(
    "name", ["x-spam-flag", "x-spamd-result", "x-rspamd-score", "x-bogosity", "x-spambayes-a"]
)
def test_no_token_is_made_of_the_verdict_of_another_filter(name: str) -> None:
    assert is_added_on_arrival(name)
