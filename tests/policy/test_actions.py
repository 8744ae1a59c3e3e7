"""Actions: how they are written, and which is the mildest."""

from __future__ import annotations

import pytest

from nbstream.policy.settings import ActionsSettings
from nbstream.policy.verdict import Action, Verdict


@pytest.mark.parametrize("text", ["pass", "quarantine", "reject", "defer", "redirect:abuse@example.org"])
def test_an_action_is_read_back_as_it_is_written(text: str) -> None:
    assert str(Action.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "drop", "discard", "Pass", "pass:", "quarantine:x@y", "reject:550", "redirect"]
)
def test_an_unknown_action_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be (pass, quarantine|redirect:ADDRESS)"):
        Action.parse(text)


@pytest.mark.parametrize(
    "address",
    ["", "x", "x@", "@x", "a b@x", "<a@x>", "a@x>", "a@b@c", "a@x\r\nTo: y", "jürgen@x", "x" * 65 + "@y"],
)
def test_a_redirection_needs_an_address(address: str) -> None:
    with pytest.raises(ValueError, match="must be redirect:ADDRESS"):
        Action.parse(f"redirect:{address}")


def test_only_the_verdict_reject_is_refused_by_default() -> None:
    assert [str(ActionsSettings().for_verdict(verdict)) for verdict in Verdict] == [
        "pass",
        "pass",
        "pass",
        "reject",
    ]
