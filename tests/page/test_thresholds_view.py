"""The view thresholds on a real listener, over first scores of all sizes."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.assembly.policy import make_policy
from nbstream.config import Settings
from nbstream.evaluation.threshold_choices import BUDGET_RATES, compare_thresholds
from nbstream.evaluation.threshold_report import BIASED_SAMPLE_TEXT, render_json
from nbstream.evaluation.tuning import LabelledSample
from nbstream.listeners.http.access import Role
from nbstream.page.thresholds_view import (
    PROBLEMS,
    ThresholdsView,
    as_sentence,
    plain_number,
    rate_value,
    read_trial,
    verdict_line,
)
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.first_scores import FirstScore, FirstScores, FirstScoreWindow
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from nbstream.policy.verdict import ModelState
from tests.evaluation.scored import first_scores, random_scores
from tests.evaluation.test_threshold_choices import FEW
from tests.page.page_listener import Browser, Response, open_page

FIXED = ThresholdPolicy(0.5, 0.95)
BUDGET = ThresholdPolicy(0.5, FalsePositiveBudget(0.01), FalsePositiveBudget(0.001))
HOSTILE = [
    "nan",
    "inf",
    "-inf",
    "1e999",
    "",
    "0",
    "9" * 10_000,
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "\x00",
]


@dataclass
class Known:
    """What the view is told of the daemon."""

    scores: FirstScores
    policy: ThresholdPolicy = FIXED
    rules: Mapping[str, ThresholdPolicy] = field(default_factory=dict)
    state: ModelState | None = field(default_factory=lambda: ModelState({"ham": 9, "spam": 9}))
    max_first_scores: int = 50_000

    def view(self) -> ThresholdsView:
        return ThresholdsView(
            "default", self.max_first_scores, lambda: self.scores, lambda: self.state, self._recipient_rules
        )

    def _recipient_rules(self) -> RecipientRules:
        rules = [
            RecipientRule.at_position(position, AddressPattern(pattern), policy, ActionsSettings())
            for position, (pattern, policy) in enumerate(self.rules.items())
        ]
        return RecipientRules.build(self.policy, ActionsSettings(), rules)


@asynccontextmanager
async def opened(client: Redis, known: Known) -> AsyncIterator[Browser]:
    async with open_page(client, known.view()) as page, page.browser(Role.READ) as browser:
        yield browser


async def get(browser: Browser, **query: str) -> Response:
    return await browser.get(f"/ui/thresholds?{urlencode(query)}")


async def outcome(browser: Browser, **query: str) -> dict[str, Any]:
    answer = await browser.get(f"/ui/thresholds/outcome?{urlencode(query)}")
    assert answer.status == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


def text_of(page: str, element_id: str) -> str:
    """The text of the element with this id, which has no elements in it."""
    found = re.search(rf'id="{re.escape(element_id)}"[^>]*>([^<]*)<', page)
    assert found, element_id
    return html.unescape(found[1])


class Outline(HTMLParser):
    """All elements of a page; each one is closed, and no id is there twice."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.elements.append((tag, values))
        self.ids += [value for name, value in attributes if name == "id" and value]
        if tag not in {"meta", "link", "input", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def tune_members(known: Known, policy: ThresholdPolicy) -> dict[str, Any]:
    """What ``nbstream tune --json --with`` says of a policy, but for its name."""
    result = compare_thresholds(known.scores, known.policy, ("with", policy))
    members: dict[str, Any] = json.loads(render_json(result, "default"))["with"]
    return {name: value for name, value in members.items() if name != "name"}


@pytest.mark.parametrize("known_policy", [FIXED, BUDGET], ids=["fixed", "budget"])
@pytest.mark.parametrize(
    ("query", "policy"),
    [
        ({"spam": "0.97"}, lambda known: ThresholdPolicy(0.5, 0.97, known.reject)),
        ({"unsure": "0.2", "spam": "0.2", "reject": "1"}, lambda _: ThresholdPolicy(0.2, 0.2, 1.0)),
        ({"spam_budget": "0.01"}, lambda known: ThresholdPolicy(0.5, FalsePositiveBudget(0.01), known.reject)),
        (
            {"spam_budget": "0.0001", "reject": ""},
            lambda known: ThresholdPolicy(
                0.5, FalsePositiveBudget(0.0001, None if known is BUDGET else known.spam)
            ),
        ),
    ],
    ids=["spam", "all", "budget", "not yet"],
)
async def test_the_outcome_is_that_of_tune_to_the_last_digit(
    client: Redis, known_policy: ThresholdPolicy, query: dict[str, str], policy: Any
) -> None:
    known = Known(random_scores(4000, 3000), known_policy)

    async with opened(client, known) as browser:
        answer = await outcome(browser, **query)

    tried = dict(answer["tried"])
    tried.pop("name")
    assert tried == tune_members(known, policy(known_policy))
    assert answer["problems"] == {}


async def test_the_page_says_the_same_as_its_outcome_and_its_form_has_what_is_tried(client: Redis) -> None:
    async with opened(client, Known(random_scores(400, 300))) as browser:
        page, answer = await get(browser, spam="0.97"), await outcome(browser, spam="0.97")
        present = await get(browser)

    Outline(page.text)
    assert {name: text_of(page.text, name) for name in answer["texts"]} == answer["texts"]
    assert answer["texts"]["line"] == "verdict: {unsure: 0.5, spam: 0.97, reject: null}"
    assert 'name="spam" step="any" min="0" max="1" value="0.97"' in page.text
    assert text_of(present.text, "summary") == "These are the thresholds in force."
    assert 'name="spam" step="any" min="0" max="1" value="0.95"' in present.text


@pytest.mark.parametrize(
    ("mail", "query", "summary"),
    [
        ([], {}, "These are the thresholds in force."),
        (
            [],
            {"spam": "0.97"},
            "No message is labelled, so nobody knows what these thresholds would have done.",
        ),
        (
            [("ham", 0.1), ("spam", 0.99)],
            {"spam": "0.97"},
            "These thresholds would have called the same messages spam, of the last 2.",
        ),
        (
            [("ham", 0.96), ("spam", 0.99)],
            {"spam": "0.97"},
            "These thresholds would have moved 1 ham out of spam, of the last 2.",
        ),
        ([], {"spam_budget": "0.01"}, None),
    ],
)
async def test_the_summary_says_what_would_change(
    client: Redis, mail: Sequence[tuple[str, float]], query: dict[str, str], summary: str | None
) -> None:
    async with opened(client, Known(first_scores(mail))) as browser:
        texts = (await outcome(browser, **query))["texts"]

    if summary is None:
        assert texts["summary"].endswith(" would have done. Needs 299 more ham to promise 1 %.")
    else:
        assert texts["summary"] == summary


async def test_the_share_has_its_interval(client: Redis) -> None:
    known = Known(first_scores([("ham", 0.99)] * 2 + [("ham", 0.1)] * 98 + [("spam", 0.9)] * 50))
    async with opened(client, known) as browser:
        texts = (await outcome(browser, spam="0.98"))["texts"]

    assert texts["tried-ham_lost"] == "2 of 100, 2.000 %"
    assert texts["interval-ham_lost"] == "0.550 % to 7.001 %"  # Wilson's
    assert texts["tried-spam_missed"] == "50 of 50, 100.00 %"
    assert texts["tried-spam_unsure"] == "50 of 50, 100.00 %"


@pytest.mark.parametrize("mail", FEW, ids=["none", "ham", "spam", "both", "sure", "all wrong", "errors"])
@pytest.mark.parametrize("policy", [FIXED, BUDGET], ids=["fixed", "budget"])
async def test_any_sample_is_shown_and_what_it_lacks_is_said(
    client: Redis, mail: Sequence[tuple[str, float]], policy: ThresholdPolicy
) -> None:
    async with opened(client, Known(first_scores(mail), policy)) as browser:
        page = await get(browser, spam="0.97", reject="0.99")

    labels = {label for label, _ in mail}
    seen = html.unescape(page.text)
    Outline(page.text)
    assert page.status == 200
    assert ("Nobody has labelled a message in the model default yet" in seen) == (not mail)
    assert ("whose first score is known: label some as it comes in." in seen) == (len(labels) == 1)
    assert ("an error that was never seen" in seen) == bool(mail)
    assert ("This chart needs labelled ham and labelled spam" in seen) == (labels != {"ham", "spam"})
    assert "nan" not in seen
    assert ("svg" in seen, "not known" in seen) == (True, labels != {"ham", "spam"})


async def test_a_biased_sample_is_said_in_the_words_of_tune(client: Redis) -> None:
    async with opened(client, Known(first_scores([("ham", 0.97)] * 30), BUDGET)) as browser:
        seen = html.unescape((await get(browser)).text)

    assert as_sentence(BIASED_SAMPLE_TEXT) in seen
    assert "biased sample, 1 % cannot be promised" in seen


async def test_budgets_say_what_is_needed_what_is_promised_and_what_was_lost(client: Redis) -> None:
    scores = FirstScores()
    for number in range(1000):
        used = ((0.01, number % 250 == 0), (0.001, False))
        first = FirstScore(1e9 + number, f"m{number}", 0.97 if number % 250 == 0 else 0.1, used)
        scores["ham"].add(first.pack())
    async with opened(client, Known(scores, BUDGET)) as browser:
        page = await get(browser)

    seen = html.unescape(page.text)
    assert "promised 1 %" in seen
    assert "needs 1,995 more ham to promise 0.1 %" in seen
    assert "4 lost, 10.0 allowed, of 1,000 ham (p 0.99)" in seen
    assert "0 lost, 1.0 allowed, of 1,000 ham (p 1.00)" in seen
    assert seen.count('class="chart budget"') == 2
    assert re.search(r'<td class="number">1,000</td><td class="number">4</td><td class="number">10.0</td>', seen)


async def test_what_was_labelled_while_the_model_was_learning_is_left_out_and_said(client: Redis) -> None:
    known = Known(first_scores([("spam", 0.5)] * 30 + [("ham", 0.1)] * 20 + [("spam", 0.99), ("ham", 0.97)]))
    known.state = ModelState({"ham": 21, "spam": 31}, {"ham": 20, "spam": 20})

    async with opened(client, known) as browser:
        page = await get(browser, reject="0.96")

    seen = html.unescape(page.text)
    assert "50 messages were labelled while the model was learning, and are left out" in seen
    assert text_of(page.text, "tried-spam_missed").startswith("0 of 1,")
    assert text_of(page.text, "tried-ham_rejected").startswith("1 of 1,")


async def test_a_budget_that_is_not_promised_says_what_holds_until_then(client: Redis) -> None:
    known = Known(random_scores(100, 100), ThresholdPolicy(0.5, FalsePositiveBudget(0.001, 0.9)))

    async with opened(client, known) as browser:
        page = await get(browser, spam_budget="0.0001")

    assert "until_promised: 0.9" in text_of(page.text, "line")
    assert ">never</td>" not in page.text


async def test_a_budget_for_which_too_little_ham_is_kept_is_not_offered(client: Redis) -> None:
    async with opened(client, Known(random_scores(10, 10), max_first_scores=3000)) as browser:
        page = await get(browser)
        answer = await outcome(browser, spam_budget="0.0005")

    assert '<option value="0.001"' in page.text
    assert '<option value="0.0005"' not in page.text
    assert answer["problems"] == {"spam_budget": "Choose one of the budgets offered."}
    assert answer["tried"] is None


async def test_where_one_policy_holds_for_all_no_rule_is_spoken_of(client: Redis) -> None:
    async with opened(client, Known(random_scores(40, 30), rules={"*@same.example": FIXED})) as browser:
        seen = (await get(browser)).text

    assert ">all recipients</a>" in seen
    assert "a rule" not in seen
    assert "These are the thresholds for" not in seen


async def test_rules_with_another_policy_are_listed_and_can_be_chosen(client: Redis) -> None:
    rules = {"*@strict.example": ThresholdPolicy(0.5, 0.999), "*@same.example": FIXED, "a&b@*": BUDGET}
    async with opened(client, Known(random_scores(400, 300), rules=rules)) as browser:
        page, strict = await get(browser), await get(browser, policy="0")
        chosen = await outcome(browser, policy="2")
        missing = await browser.get("/ui/thresholds?policy=1")

    assert "These are the thresholds for all recipients without a rule of their own." in page.text
    assert "These are the thresholds for recipients that match *@strict.example." in strict.text
    assert "*@same.example" not in page.text
    assert "a&amp;b@*" in page.text
    assert 'name="spam" step="any" min="0" max="1" value="0.999"' in strict.text
    assert "into the rule for *@strict.example" in strict.text
    assert chosen["tried"]["setting"] == "max_false_positive_rate: 0.01"
    assert missing.status == 404


@pytest.mark.parametrize("value", HOSTILE)
async def test_no_hostile_query_breaks_the_page(client: Redis, value: str) -> None:
    fields = ("policy", "unsure", "spam", "spam_budget", "reject", "reject_budget", "x")
    async with opened(client, Known(random_scores(40, 30))) as browser:
        for name in fields:
            page = await get(browser, **{name: value[:3000]})
            assert page.status == (404 if name == "policy" else 200)
            Outline(page.text)
            assert "<script>alert" not in page.text
            assert "49" not in (text_of(page.text, "problem-spam") if page.status == 200 else "")
            if name != "policy":
                answer = await outcome(browser, **{name: value[:3000]})
                assert (answer["tried"] is None) == bool(answer["problems"])
        for name in fields:
            long = (value * 1000)[:20_000]  # yarl keeps the last 256 addresses of the client
            assert (await get(browser, **{name: long})).status in {200, 400, 404, 414, 431}


async def test_what_is_wrong_stands_at_its_field_and_nothing_is_tried(client: Redis) -> None:
    async with opened(client, Known(random_scores(40, 30))) as browser:
        page = await get(browser, unsure="0.99", spam="0.5")

    assert text_of(page.text, "problem-spam") == "Enter at least the threshold for unsure."
    assert 'value="0.5" aria-describedby="problem-spam" aria-invalid="true"' in page.text
    assert text_of(page.text, "summary") == "These thresholds cannot be used. The field that is wrong says why."
    assert text_of(page.text, "line") == ""


async def test_before_the_counts_are_loaded_nothing_is_said_of_them(client: Redis) -> None:
    async with opened(client, Known(FirstScores(), state=None)) as browser:
        page = await get(browser)

    assert page.status == 503
    assert "not loaded yet" in page.text


async def test_a_model_that_still_learns_says_so(client: Redis) -> None:
    state = ModelState({"ham": 3, "spam": 9}, {"ham": 10, "spam": 10})
    async with opened(client, Known(random_scores(3, 9), state=state)) as browser:
        assert "it knows 3 of 10 messages that are ham and 9 of 10 that are spam" in (await get(browser)).text


async def test_nothing_is_computed_anew_before_something_is_learned(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def count(first_scores: FirstScores, learned_at: float) -> LabelledSample:
        made.append(len(first_scores["ham"]))
        return make_sample(first_scores, learned_at)

    make_sample = LabelledSample.from_first_scores
    monkeypatch.setattr(LabelledSample, "from_first_scores", count)
    known = Known(random_scores(300, 300), BUDGET)
    async with opened(client, known) as browser:
        for number in range(20):
            await outcome(browser, spam=f"0.9{number}1")
            await get(browser, spam_budget="0.01")
        assert made == [300]

        known.scores["ham"].add(FirstScore(1e9, "new", 0.999).pack())
        assert (await outcome(browser, spam="0.99"))["texts"]["tried-ham_lost"].startswith("1 of 301")
        known.policy = ThresholdPolicy(0.5, FalsePositiveBudget(0.2))  # a reload
        await get(browser)
        known.scores = random_scores(10, 10)  # the counts were loaded anew
        await get(browser)

    assert made == [300, 301, 301, 10]


async def test_a_request_costs_the_same_whatever_the_number_of_messages(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = FirstScores.__getitem__
    async with opened(client, Known(random_scores(3000, 3000), BUDGET)) as browser:
        await get(browser)
        monkeypatch.setattr(
            FirstScores, "__getitem__", lambda scores, label: GuardedWindow(windows(scores, label))
        )
        first = await get(browser, spam_budget="0.01", unsure="0.1")
        second = await outcome(browser, unsure="0.1", spam="0.123", reject="0.456")

    assert first.status == 200
    assert second["problems"] == {}


class GuardedWindow:
    """A window that cannot be gone through: it says whether it has changed, and how a budget was used."""

    def __init__(self, window: FirstScoreWindow) -> None:
        self.change_count = window.change_count
        self.budget_use = window.budget_use
        self.budget_use_over_time = window.budget_use_over_time


async def test_a_large_sample_has_a_small_page(client: Redis) -> None:
    async with opened(client, Known(random_scores(20_000, 20_000), BUDGET)) as browser:
        page = await get(browser)
        answer = await browser.get("/ui/thresholds/outcome?spam=0.97")

    assert len(page.text) < 80_000
    assert len(answer.text) < 4000
    assert text_of(page.text, "tried-ham_lost").endswith("%")


async def test_the_handles_are_where_a_script_finds_them(client: Redis) -> None:
    async with opened(client, Known(random_scores(400, 300))) as browser:
        page, answer = await get(browser, reject="0.99"), await outcome(browser, reject="0.99")

    outline = Outline(page.text)
    handles = [group for group in outline.named("g") if "data-threshold" in group]
    assert [group["data-threshold"] for group in handles] == ["unsure", "spam", "reject"]
    assert [group["data-words"] for group in handles] == [
        "unsure from 0.5", "spam from 0.95", "reject from 0.99",
    ]  # fmt: skip
    assert answer["thresholds"] == {"unsure": "0.5", "spam": "0.95", "reject": "0.99"}
    assert list(answer["words"].values()) == [group["data-words"] for group in handles]
    assert plain_number(0.99) == "0.99"
    images = [svg for svg in outline.named("svg") if svg.get("role") == "img"]
    assert len(images) == 2
    assert all(svg.get("aria-label") for svg in images)
    assert not [attributes for _, attributes in outline.elements if "style" in attributes]


# ``threshold_query``: what somebody tries, and the line of the configuration that sets it.

BUDGETED = ThresholdPolicy(0.4, FalsePositiveBudget(0.001, 0.97), FalsePositiveBudget(0.0001))
PROBABILITIES = st.one_of(
    st.floats(0, 1, exclude_min=True, exclude_max=True), st.sampled_from([1e-9, 0.5, 0.95, 1 - 1e-12])
)


def problems(query: dict[str, str], present: ThresholdPolicy = FIXED) -> dict[str, str]:
    trial = read_trial(query, present, BUDGET_RATES)
    assert (trial.policy is None) == bool(trial.problems)
    assert PROBLEMS.keys() >= set(trial.problems.values())
    return dict(trial.problems)


def tried(query: dict[str, str], present: ThresholdPolicy = FIXED) -> ThresholdPolicy:
    trial = read_trial(query, present, BUDGET_RATES)
    assert trial.policy, trial.problems
    return trial.policy


@pytest.mark.parametrize(
    ("query", "policy"),
    [
        ({"spam": "0.97"}, ThresholdPolicy(0.5, 0.97)),
        ({"unsure": "", "spam": "0.97", "spam_budget": ""}, ThresholdPolicy(0.5, 0.97)),
        ({"unsure": ".25", "spam": " 9e-1 "}, ThresholdPolicy(0.25, 0.9)),
        ({"spam": "0.97", "spam_budget": "0.01"}, ThresholdPolicy(0.5, FalsePositiveBudget(0.01, 0.95))),
        ({"spam_budget": "0.0001"}, ThresholdPolicy(0.5, FalsePositiveBudget(0.0001, 0.95))),
        ({"reject": "1"}, ThresholdPolicy(0.5, 0.95, 1.0)),
        (
            {"spam_budget": "0.01", "reject_budget": "0.001", "reject": "x"},
            ThresholdPolicy(0.5, FalsePositiveBudget(0.01, 0.95), FalsePositiveBudget(0.001)),
        ),
    ],
)
def test_a_field_takes_the_place_of_what_is_in_force(query: dict[str, str], policy: ThresholdPolicy) -> None:
    assert tried(query) == policy


def test_until_a_budget_is_promised_what_is_in_force_stays() -> None:
    assert tried({"spam_budget": "0.001"}, BUDGETED).spam == BUDGETED.spam
    assert tried({"spam_budget": "0.01"}, BUDGETED).spam == FalsePositiveBudget(0.01, 0.97)
    assert tried({"spam_budget": "0.01"}, FIXED).spam == FalsePositiveBudget(0.01, 0.95)
    assert tried({"reject_budget": "0.0001"}, FIXED).reject == FalsePositiveBudget(0.0001)
    assert tried({"reject": "", "reject_budget": ""}, BUDGETED).reject is None


@pytest.mark.parametrize(
    ("query", "present", "found"),
    [
        ({"spam": ""}, FIXED, {"spam": "needed"}),
        ({"spam": "0.4"}, FIXED, {"spam": "below_unsure"}),
        ({"unsure": "0.96"}, FIXED, {"spam": "below_unsure"}),
        ({"reject": "0.9"}, FIXED, {"reject": "below_spam"}),
        ({"spam": "1"}, FIXED, {"spam": "not_a_probability"}),
        ({"spam_budget": "0.3"}, FIXED, {"spam_budget": "not_offered"}),
        ({"unsure": "0.98"}, BUDGETED, {"unsure": "above_until_promised"}),
        ({"spam_budget": "0.001", "reject_budget": "0.01"}, FIXED, {"reject_budget": "larger_than_spam"}),
        ({"unsure": "a", "spam": "b", "reject": "c"}, FIXED, dict.fromkeys(("unsure", "spam", "reject"), "n")),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    query: dict[str, str], present: ThresholdPolicy, found: dict[str, str]
) -> None:
    seen = problems(query, present)
    assert seen == found or (set(found.values()) == {"n"} and seen.keys() == found.keys())


NUMBERS = PROBABILITIES.map(plain_number)
RATES = st.sampled_from([rate_value(rate) for rate in BUDGET_RATES])


@given(
    st.fixed_dictionaries(
        {"unsure": NUMBERS, "spam": NUMBERS},
        optional={"spam_budget": RATES, "reject": NUMBERS, "reject_budget": RATES},
    )
)
def test_what_can_be_tried_is_what_the_configuration_takes_and_the_line_sets_it(query: dict[str, str]) -> None:
    trial = read_trial(query, FIXED, BUDGET_RATES)
    unsure, reject = float(query["unsure"]), query.get("reject")
    budget, spam = query.get("spam_budget"), float(query["spam"])
    rate = query.get("reject_budget")
    wanted = ThresholdPolicy(
        unsure,
        FalsePositiveBudget(float(budget), 0.95) if budget else spam,
        FalsePositiveBudget(float(rate)) if rate else None if reject is None else float(reject),
    )

    if trial.policy is None:
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
            Settings.model_validate(yaml.safe_load(verdict_line(wanted)))
    else:
        assert trial.policy == wanted
        assert make_policy(Settings.model_validate(yaml.safe_load(verdict_line(wanted)))) == wanted


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (FIXED, "verdict: {unsure: 0.5, spam: 0.95, reject: null}"),
        (
            BUDGETED,
            "verdict: {unsure: 0.4, max_false_positive_rate: 0.001, until_promised: 0.97, "
            "reject: {max_false_positive_rate: 0.0001}}",
        ),
        (ThresholdPolicy(1e-7, 0.5, 1.0), "verdict: {unsure: 0.0000001, spam: 0.5, reject: 1.0}"),
    ],
)
def test_the_line_is_one_line_of_yaml(policy: ThresholdPolicy, line: str) -> None:
    assert verdict_line(policy) == line
    assert make_policy(Settings.model_validate(yaml.safe_load(line))) == policy
