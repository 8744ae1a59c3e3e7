"""Actions, recipients and quarantine in the configuration: what is inherited, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from nbstream.daemon.assembly.policy import make_rules
from nbstream.daemon.config import Settings, load_settings
from nbstream.errors import ConfigError
from nbstream.policy import settings as inheritance
from nbstream.policy.verdict import Verdict


def read(folder: Path, text: str) -> Settings:
    file = folder / "nb.yaml"
    file.write_text(text)
    return load_settings(file)


def refused(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [line.partition("nb.yaml:")[2] for line in str(caught.value).splitlines()]


def test_a_rule_inherits_what_it_does_not_give(tmp_path: Path) -> None:
    text = """
verdict: {unsure: 0.2, spam: 0.4}
actions: {spam: quarantine, unsure: defer}
recipients:
  - {match: "*@a.example", verdict: {spam: 0.3}}
  - {match: "Boss@B.example", actions: {spam: "redirect:abuse@b.example"}}
  - {match: "*@c.example"}
"""
    rules = make_rules(read(tmp_path, text))

    result = {
        address: (
            rule.policy.unsure,
            rule.policy.spam,
            *(str(rule.actions.for_verdict(verdict)) for verdict in Verdict),
        )
        for address in ("x@a.example", "boss@b.example", "x@c.example", "x@d.example")
        for rule in [rules.rule_of(address)]
    }
    assert result == {
        "x@a.example": (0.2, 0.3, "pass", "defer", "quarantine", "reject"),
        "boss@b.example": (0.2, 0.4, "pass", "defer", "redirect:abuse@b.example", "reject"),
        "x@c.example": (0.2, 0.4, "pass", "defer", "quarantine", "reject"),
        "x@d.example": (0.2, 0.4, "pass", "defer", "quarantine", "reject"),
    }


def test_the_quarantine_is_in_the_state_folder(tmp_path: Path) -> None:
    settings = read(tmp_path, f"state_dir: {tmp_path}\nquarantine: {{days: null}}")
    assert (settings.quarantine_folder, settings.quarantine.days) == (tmp_path / "Quarantine", None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("actions: {spam: drop}", "1: actions.spam: found 'drop', must be pass, quarantine, redirect:ADDRESS,"),
        ("actions: {spam: true}", "1: actions.spam: found true, must be pass, quarantine, redirect:ADDRESS,"),
        ("actions: {spam: 'redirect:'}", "1: actions.spam: found 'redirect:', must be redirect:ADDRESS with a"),
        (
            "actions: {ham: 'redirect:SPAM@nbstream.invalid'}",
            "1: actions.ham: found 'redirect:SPAM@nbstream.invalid', must be redirected to no feedback address",
        ),
        (
            "actions: {maybe: pass}",
            "1: actions.maybe: found an unknown key, must be one of ham, unsure, spam, reject",
        ),
        (
            "state_dir: /srv\nrelay: {next_hop: 'maildir:/srv/Quarantine'}",
            "2: relay: found a mapping, next_hop must be another folder than the quarantine",
        ),
        ("quarantine: {days: 0}", "1: quarantine.days: found 0, must be at least 1"),
        ("recipients: {match: x}", "1: recipients: found a mapping, must be a list"),
        (
            "recipients: [x]",
            "1: recipients[0]: found text, must be a mapping with keys among match, verdict, actions",
        ),
        ("recipients: [{}]", "1: recipients[0].match: not given, must be given"),
        ("recipients: [{match: 5}]", "1: recipients[0].match: found 5, must be 1 to 320 characters of an address"),
        (
            "recipients: [{match: sales.example}]",
            "1: recipients[0].match: found 'sales.example', must be a pattern that an address can match",
        ),
        (
            "recipients: [{match: '*', verdict: {spma: 0.1}}]",
            "1: recipients[0].verdict.spma: found an unknown key, did you mean spam?",
        ),
        (
            "recipients: [{match: '*', action: {}}]",
            "1: recipients[0].action: found an unknown key, did you mean actions?",
        ),
        ("recipients: [{match: '*', verdict: null}]", "1: recipients[0].verdict: found null, must be a mapping"),
        (
            "recipients: [{match: '*', actions: {spam: bounce}}]",
            "1: recipients[0].actions.spam: found 'bounce', must be pass,",
        ),
        (
            "recipients: [{match: '*', actions: {spam: 'redirect:ham@nbstream.invalid'}}]",
            "1: recipients[0].actions.spam: found 'redirect:ham@nbstream.invalid', must be redirected to no",
        ),
        (
            "recipients: [{match: '*', verdict: {unsure: 0.995}}]",
            "1: recipients[0].verdict.spam: found 0.99 (inherited), must be at least verdict.unsure (0.995)",
        ),
        (
            "verdict: {unsure: 0.2, spam: 0.4}\nrecipients:\n- {match: '*', verdict: {spam: 0.1}}",
            "3: recipients[0].verdict.spam: found 0.1, must be at least verdict.unsure (0.2)",
        ),
        (
            f"recipients: [{', '.join(f'{{match: a{n}@x}}' for n in range(201))}]",
            "1: recipients: found '201 rules'",
        ),
        (
            "recipients: [{match: '*@x', verdict: {max_false_positive_rate: 0.00001}}]",
            "1: recipients[0].verdict.max_false_positive_rate: found 1e-05, must be",
        ),
        (
            "recipients:\n- match: *@x",
            "2: must be YAML: while scanning an alias did not find expected alphabetic or numeric character "
            "(column 11); text that begins with * or & needs quotes",
        ),
    ],
)
def test_a_problem_names_its_line_and_key(tmp_path: Path, text: str, problem: str) -> None:
    (result,) = refused(tmp_path, text)
    assert result.startswith(problem)


def test_a_threshold_for_spam_replaces_every_form_of_it() -> None:
    class Top(BaseModel):
        unsure: float = 0.5
        spam: float = 0.95
        max_false_positive_rate: float = 0.1

    rules = [{"match": "*", "verdict": {"max_false_positive_rate": 0.01}}]

    result = inheritance.inherit_settings(rules, {"verdict": Top(unsure=0.4, spam=0.9)})

    assert result == [{"match": "*", "verdict": {"max_false_positive_rate": 0.01, "unsure": 0.4}}]


def budgets(count: int) -> str:
    rules = [
        f"  - {{match: '*@{n}.example', verdict: {{max_false_positive_rate: 0.0{10 + n}}}}}" for n in range(count)
    ]
    return "\n".join(["verdict: {max_false_positive_rate: 0.005}", "recipients:", *rules])


def test_an_entry_of_a_sender_list_has_one_form(tmp_path: Path) -> None:
    settings = read(tmp_path, 'lists: {allow: ["*@Partner.example", 192.0.2.7], block: ["x@partner.example"]}')

    assert settings.lists.allow == ("partner.example", "192.0.2.7/32")
    (problem,) = refused(tmp_path, "lists: {allow: [partner]}")
    assert problem.startswith(
        "1: lists.allow[0]: found 'partner', must be an address (ann@example.org), a domain (example.org), "
    )
