"""What is worth saying of a model that is loaded: how much it has learned, and whether its budgets are guaranteed.

Rules: pure, so that ``nbstream doctor`` and the page say the same of the same model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbstream.evaluation.tuning import LabelledSample
from nbstream.findings import note, ok, warning
from nbstream.policy.budget import budget_guarantees
from nbstream.policy.thresholds import FalsePositiveBudget
from nbstream.policy.verdict import ModelState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nbstream.bayes.counts import Totals
    from nbstream.filter.results import FilterPolicy
    from nbstream.findings import Finding
    from nbstream.policy.budget import BudgetGuarantee
    from nbstream.policy.prequential_scores import PrequentialScores

LEARNING = warning(
    "model.learned",
    "Every verdict is unsure until {missing} more are learned ({learned} so far).",
    "Teach old mail: nbstream learn spam FOLDER and nbstream learn ham FOLDER for files, and for an IMAP server "
    "nbstream learn spam --imap imaps://USER@HOST/Junk.",
)
ONE_SIDED = warning(
    "model.learned",
    "Of the learned messages {share:.0%} are ham ({learned}): the model has seen little of the other class.",
    "Teach more {rare}, until there are a few hundred.",
)
LEARNED = ok("model.learned", "{learned} messages are learned; {share:.0%} of them are ham.")
TOKENS_FULL = note(
    "model.tokens",
    "The model has {count} of the {limit} tokens of model.max_tokens: the daemon forgets the least useful ones.",
    "Raise model.max_tokens if Redis has room.",
)
BUDGET_LEARNING = warning(
    "model.budget",
    "The budget of {rate:g} is not guaranteed yet: {missing:,} more labelled ham messages are needed.",
    "Label all ham; until then a fixed threshold decides.",
)
BUDGET_BIASED = warning(
    "model.budget",
    "The budget of {rate:g} is not guaranteed: the labels look like corrections only. A fixed threshold decides.",
    "Label all ham, and not the mistakes alone.",
)
BUDGET_CATCHES_LITTLE = warning(
    "model.budget",
    "The budget of {rate:g} is guaranteed, but {missed:.0%} of the labelled spam would not be called spam by it.",
    "Look whether a ham with a high P(spam) is labelled wrongly, or choose a larger budget: nbstream tune, or "
    "Thresholds on the page.",
)
BUDGET = ok("model.budget", "The budget of {rate:g} is guaranteed by {ham:,} labelled ham messages.")

_FEW_LESSONS = 10
_RARE_SHARE = 0.05
_FULL_SHARE = 0.95
_LITTLE_SHARE = 0.5
_FEW_SPAM = 50


def learned_findings(state: ModelState, tokens: int, max_tokens: int | None) -> Iterator[Finding]:
    """Yield whether the model has learned enough of each class, and whether it forgets some of its ``tokens``."""
    learned, needed = state.learned, state.needed
    text = describe_counts(learned)
    count = sum(learned.values())
    share = learned["ham"] / max(1, count)
    if state.is_learning:
        missing = {label: count - learned[label] for label, count in needed.items() if count > learned[label]}
        yield LEARNING(missing=describe_counts(missing), learned=text)
    elif count >= _FEW_LESSONS and min(share, 1 - share) < _RARE_SHARE:
        yield ONE_SIDED(share=share, learned=text, rare="ham" if share < _RARE_SHARE else "spam")
    else:
        yield LEARNED(learned=text, share=share)
    if max_tokens is not None and tokens >= _FULL_SHARE * max_tokens:
        yield TOKENS_FULL(count=tokens, limit=max_tokens)


def budget_findings(
    prequential_scores: PrequentialScores, totals: Totals, policy: FilterPolicy
) -> Iterator[Finding]:
    """Yield for each budget whether it is guaranteed, and whether the guarantee is of any use."""
    ham, state = prequential_scores["ham"], ModelState(totals.messages_by_label(), policy.min_learned)
    for rate, guarantee in sorted(budget_guarantees(ham, policy.budget_rates).items()):
        missed = _missed_share(prequential_scores, guarantee, state) if rate in _spam_rates(policy) else 0.0
        if guarantee.ham_missing:
            yield BUDGET_LEARNING(rate=rate, missing=guarantee.ham_missing)
        elif guarantee.threshold is None:
            yield BUDGET_BIASED(rate=rate)
        elif missed > _LITTLE_SHARE:
            yield BUDGET_CATCHES_LITTLE(rate=rate, missed=missed)
        else:
            yield BUDGET(rate=rate, ham=len(ham))


def _spam_rates(policy: FilterPolicy) -> set[float]:
    """Return the budgets from which spam is called so; those of reject are for the surest spam alone."""
    policies = (policy.default_policy, *policy.other_policies)
    return {each.spam.rate for each in policies if isinstance(each.spam, FalsePositiveBudget)}


def _missed_share(prequential_scores: PrequentialScores, guarantee: BudgetGuarantee, state: ModelState) -> float:
    """Return the share of the labelled spam that is below the threshold of a guarantee; 0 of few."""
    spams = LabelledSample.from_prequential_scores(prequential_scores, prequential_scores.learned_at(state)).spams
    if guarantee.threshold is None or len(spams) < _FEW_SPAM:
        return 0.0
    return int(np.searchsorted(spams, guarantee.threshold)) / len(spams)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return numbers by label in words."""
    return " and ".join(f"{count} {label}" for label, count in counts.items())
