"""Which rule holds for whom, and what becomes of a message to recipients that differ."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.header import own_field_value, parse_own_id
from nbstream.policy.recipient_rules import (
    PolicyVerdict,
    RecipientCase,
    RecipientGroup,
    RecipientRule,
    RecipientRules,
    group_recipients,
)
from nbstream.policy.sender_lists import ListDecision, ListKind
from nbstream.policy.settings import OWN_FIELD, ActionsSettings
from nbstream.policy.thresholds import PrequentialScores, ThresholdPolicy
from nbstream.policy.verdict import Action, ModelState, Verdict, decide_verdict
from nbstream.server.feedback_mailbox import quoted_ids

ACTIONS = ["pass", "quarantine", "redirect:a@x", "redirect:b@x", "reject", "defer"]
READY = ModelState({})
ALLOW, BLOCK = (ListDecision(kind, "user") for kind in ListKind)


def verdict_at(probability: float):  # type: ignore[no-untyped-def]  # a function of a policy
    def policy_verdict_of(policy: ThresholdPolicy, own_model: str) -> PolicyVerdict:
        thresholds = policy.thresholds(PrequentialScores())
        return PolicyVerdict(*decide_verdict(probability, thresholds, READY), thresholds, own_model=own_model)

    return policy_verdict_of


def case(position: int, spam: str, threshold: float = 0.95, listed: ListDecision | None = None) -> RecipientCase:
    rule = RecipientRule(
        f"rule {position}", position, ThresholdPolicy(spam=threshold), ActionsSettings(spam=Action.parse(spam))
    )
    return RecipientCase(rule, listed)


def actions_by_recipients(groups: list[RecipientGroup[str]]) -> dict[str, str]:
    return {"".join(group.recipients): str(group.decision.action) for group in groups}


def test_the_first_rule_that_matches_holds_or_else_the_default() -> None:
    rules = RecipientRules.build(
        ThresholdPolicy(),
        ActionsSettings(),
        [
            RecipientRule.at_position(position, AddressPattern(text), ThresholdPolicy(), ActionsSettings())
            for position, text in enumerate(("ann@x", "*@x", "*@*.y"))
        ],
    )

    positions = [rules.rule_of(address).position for address in ("Ann@X", "bob@x", "a@b.y", "a@y", "postmaster")]

    assert positions == [0, 1, 2, 3, 3]


def test_recipients_with_the_same_decision_are_one_group() -> None:
    pairs = [("a", case(0, "quarantine")), ("b", case(1, "pass")), ("c", case(2, "quarantine"))]

    groups = group_recipients(pairs, verdict_at(0.99), can_differ=True)

    assert actions_by_recipients(groups) == {"b": "pass", "ac": "quarantine"}
    assert [group.decision.rule.position for group in groups] == [1, 0]
    assert all(group.has_other_rules for group in groups)


def test_what_a_sender_list_decides_is_another_decision() -> None:
    pairs = [
        ("a", case(0, "reject")),
        ("b", case(0, "reject", listed=ALLOW)),
        ("c", case(0, "reject", listed=BLOCK)),
        ("d", case(0, "reject", listed=ListDecision(ListKind.ALLOW, "site", decides=False))),
    ]

    groups = group_recipients(pairs, verdict_at(0.1), can_differ=True, can_refuse_some=True)

    assert [(group.recipients, group.decision.policy_verdict.reason) for group in groups] == [
        (("a",), "probability < 0.5 (unsure)"),
        (("b",), "list=allow, owner=user"),
        (("d",), "probability < 0.5 (unsure); list=allow-unproved, owner=site"),
        (("c",), "list=block, owner=user"),
    ]
    assert not any(group.has_other_rules for group in groups)


def test_decisions_by_other_own_models_are_other_decisions() -> None:
    same = case(0, "pass").rule
    pairs = [(name, RecipientCase(same, own_model=name)) for name in ("", "ann", "bob")]

    apart = group_recipients(pairs, verdict_at(0.99), can_differ=True)
    (together,) = group_recipients(pairs, verdict_at(0.99), can_differ=False)

    assert [(group.recipients, group.has_other_models) for group in apart] == [
        (("",), False),
        (("ann",), False),
        (("bob",), False),
    ]
    assert (together.recipients, together.has_other_models) == (("", "ann", "bob"), True)
    assert not together.has_other_rules


@pytest.mark.parametrize(
    ("actions", "different", "together"),
    [
        (["pass", "reject"], {"ab": "pass"}, {"ab": "pass"}),
        (["quarantine", "reject"], {"ab": "quarantine"}, {"ab": "quarantine"}),
        (["pass", "quarantine"], {"a": "pass", "b": "quarantine"}, {"ab": "pass"}),
        (["pass", "quarantine", "defer"], {"ac": "pass", "b": "quarantine"}, {"abc": "pass"}),
        (["quarantine", "redirect:a@x"], {"b": "redirect:a@x", "a": "quarantine"}, {"ab": "redirect:a@x"}),
        (
            ["redirect:b@x", "redirect:a@x"],
            {"a": "redirect:b@x", "b": "redirect:a@x"},
            {"ab": "redirect:b@x"},
        ),
        (["reject", "defer"], {"ab": "defer"}, {"ab": "defer"}),
        (["reject", "reject"], {"ab": "reject"}, {"ab": "reject"}),
    ],
)
def test_groups_of_different_actions(
    actions: list[str], different: dict[str, str], together: dict[str, str]
) -> None:
    pairs = [("abc"[position], case(position, action)) for position, action in enumerate(actions)]

    assert actions_by_recipients(group_recipients(pairs, verdict_at(0.99), can_differ=True)) == different
    assert actions_by_recipients(group_recipients(pairs, verdict_at(0.99), can_differ=False)) == together


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.sampled_from([0.9, 0.95]), st.sampled_from([None, ALLOW, BLOCK])),
        min_size=1,
        max_size=5,
    ),
    st.data(),
    st.booleans(),
    st.sampled_from([0.1, 0.92, 0.99]),
)
def test_groups_do_not_depend_on_the_order_of_the_recipients(
    rules: list[tuple[str, float, ListDecision | None]], data: st.DataObject, can_differ: bool, probability: float
) -> None:
    cases = [case(position, *rule) for position, rule in enumerate(rules)]
    drawn = data.draw(st.lists(st.sampled_from(cases), min_size=1, max_size=8))
    pairs = list(enumerate(drawn))

    one = group_recipients(pairs, verdict_at(probability), can_differ=can_differ)
    other = group_recipients(data.draw(st.permutations(pairs)), verdict_at(probability), can_differ=can_differ)

    assert [(group.decision, set(group.recipients)) for group in one] == [
        (group.decision, set(group.recipients)) for group in other
    ]
    everybody = [recipient for group in one for recipient in group.recipients]
    assert sorted(everybody) == [number for number, _ in pairs]
    assert can_differ or len(one) == 1
    assert len(one) == 1 or all(group.decision.action.kind.takes_message for group in one)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("*@Sales.example", "*@sales.example"),
        ("*", "*"),
        ("boss@corp.example", "recipients[7]"),
        ("b?ss@corp.example", "recipients[7]"),
        ("boss@*", "recipients[7]"),
        ('*";id=x@y', "*__id_x@y"),
        ("*@[ipv6:::1]", "*@_ipv6___1_"),
        ("*é@x", "*_@x"),
        ("*@" + "x" * 200, "*@" + "x" * 55 + "..."),
    ],
)
def test_a_rule_is_named_by_its_pattern_unless_that_names_one_mailbox(text: str, name: str) -> None:
    rule = RecipientRule.at_position(7, AddressPattern(text), ThresholdPolicy(), ActionsSettings())

    assert rule.name == name
    value = own_field_value("k" * 24, Verdict.SPAM, 0.99, "why", "default", rule.name)
    assert parse_own_id(value) == "k" * 24
    quoting = f"Subject: fw\r\n\r\n> X-Nbstream: {value}\r\n".replace("\r\n\t", "\r\n> \t")
    assert quoted_ids(Message.parse(quoting.encode()), OWN_FIELD) == {"k" * 24}
    assert f'\r\n\tpolicy="{name}";\r\n\tmodel=default; id=' in value
