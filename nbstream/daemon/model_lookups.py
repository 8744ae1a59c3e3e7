"""What is said of the model of a running process: its state, findings, and what it knows of messages.

Rules: the findings are pure, so that ``nbstream doctor`` and the page say the same of the same model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.counts import Totals
from nbstream.evaluation.tuning import LabelledSample
from nbstream.filter.filter import MessageRecord, find_message_record
from nbstream.filter.message_counts import learned_by_class
from nbstream.filter.suspects import find_suspects
from nbstream.findings import Severity, note, ok, warning
from nbstream.numpy_on_demand import np
from nbstream.policy.autolearn import model_state
from nbstream.policy.thresholds import budget_guarantees
from nbstream.policy.verdict import ModelState
from nbstream.server.api_json import ModelStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nbstream.daemon.config import Settings
    from nbstream.daemon.server_parts import ServerParts
    from nbstream.filter import FilterPolicy
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.suspects import Suspect
    from nbstream.findings import Finding
    from nbstream.policy.thresholds import BudgetGuarantee, PrequentialScores

LEARNING = warning(
    "model.learned",
    "Every verdict is unsure until the model has learned {missing} more ({learned} so far).",
    "Train it with old mail: nbstream learn spam FOLDER and nbstream learn ham FOLDER, or from an IMAP server "
    "nbstream learn spam --imap imaps://USER@HOST/Junk.",
)
ONE_SIDED = warning(
    "model.learned",
    "{share:.0%} of the learned messages are ham ({learned}): the model has seen little of the other class.",
    "Teach more {rare}: a few hundred messages are enough.",
)
LEARNED = ok("model.learned", "{learned} messages are learned; {share:.0%} of them are ham.")
TOKENS_FULL = note(
    "model.tokens",
    "The model has {count} of the {limit} tokens of model.max_tokens: the daemon evicts the least useful ones.",
    "Raise model.max_tokens if Redis has memory to spare.",
)
BUDGET_LEARNING = warning(
    "model.budget",
    "The budget of {rate:g} is not guaranteed yet: it needs {missing:,} more labelled ham.",
    "Label all ham. Until then a fixed threshold is used.",
)
BUDGET_BIASED = warning(
    "model.budget",
    "The budget of {rate:g} is not guaranteed: only mistakes seem to be labelled. A fixed threshold is used.",
    "Label all ham, not only mistakes.",
)
BUDGET_CATCHES_LITTLE = warning(
    "model.budget",
    "The budget of {rate:g} is guaranteed, but {missed:.0%} of the labelled spam would not be called spam by it.",
    "Check whether ham with a high P(spam) is mislabelled, or choose a larger budget: nbstream tune, or "
    "Thresholds on the page.",
)
BUDGET = ok("model.budget", "The budget of {rate:g} is guaranteed, based on {ham:,} labelled ham messages.")

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
        missed = _missed_share(prequential_scores, guarantee, state)
        if guarantee.ham_missing:
            yield BUDGET_LEARNING(rate=rate, missing=guarantee.ham_missing)
        elif guarantee.threshold is None:
            yield BUDGET_BIASED(rate=rate)
        elif missed > _LITTLE_SHARE:
            yield BUDGET_CATCHES_LITTLE(rate=rate, missed=missed)
        else:
            yield BUDGET(rate=rate, ham=len(ham))


def _missed_share(prequential_scores: PrequentialScores, guarantee: BudgetGuarantee, state: ModelState) -> float:
    """Return the share of the labelled spam that is below the threshold of a guarantee; 0 of few."""
    spams = LabelledSample.from_prequential_scores(prequential_scores, prequential_scores.learned_at(state)).spams
    if guarantee.threshold is None or len(spams) < _FEW_SPAM:
        return 0.0
    return int(np.searchsorted(spams, guarantee.threshold)) / len(spams)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return numbers by label in words."""
    return " and ".join(f"{count} {label}" for label, count in counts.items())


class ModelLookups(NamedTuple):
    """The state of the model as clients see it; ``policy`` gives the policy in force."""

    settings: Settings
    parts: ServerParts
    policy: Callable[[], FilterPolicy]

    def model_status(self) -> ModelStatus | None:
        """Return the state of the model; None before it is loaded."""
        counts, state = self.parts.counts, self.model_state()
        if state is None:
            return None
        return ModelStatus(
            self.settings.model.name,
            state,
            counts.vocabulary_size,
            self.policy().default_policy.thresholds(counts.loaded_prequential_scores),
            counts.lag_seconds,
        )

    def model_state(self) -> ModelState | None:
        """Return how much the model has learned; None before it is loaded."""
        totals = self.parts.counts.totals
        if totals is None:
            return None
        automatic = self.parts.counts.automatic_totals if self.parts.autolearner else None
        return model_state(totals, self.policy().min_learned, automatic)

    def findings(self) -> Sequence[Finding]:
        """Return what is not as it should be with what the model has learned, and with its budgets."""
        counts, policy, state = self.parts.counts, self.policy(), self.model_state()
        if counts.totals is None or state is None:
            return []
        found = [
            *learned_findings(state, counts.totals.vocabulary_size, self.settings.model.max_tokens),
            *budget_findings(counts.loaded_prequential_scores, counts.totals, policy),
        ]
        return [finding for finding in found if finding.severity is not Severity.OK]

    async def message_record(self, message_key: str) -> MessageRecord | None:
        """Return what is known of a message by its id. Raises ``StoreUnavailable``."""
        return await find_message_record(
            message_key, self.parts.recent_messages, self.parts.model, self.make_scorer()
        )

    def make_scorer(self) -> Scorer:
        """Return what scores as checks do now, with what was learned automatically."""
        return self.parts.spam_filter.parts.make_scorer(self.policy())

    def class_names(self) -> Sequence[str]:
        """Return the classes that can be taught now."""
        return self.policy().class_names

    async def learned_by_class(self) -> Mapping[str, int]:
        """Return how many messages each class has learned: empty without kinds or before the first load."""
        kinds = self.policy().kinds if self.model_state() else ()
        return learned_by_class(self.parts.counts.group(automatic=False).column_totals, kinds) if kinds else {}

    def autolearned(self) -> Mapping[str, int] | None:
        """Return how many messages of each class were learned without people; None where none are to be."""
        totals = self.parts.counts.automatic_totals or Totals()
        return totals.messages_by_label() if self.parts.autolearner else None

    async def find_suspects(self, message_keys: Iterable[str]) -> Sequence[Suspect]:
        """Return the learned messages whose label may be wrong. Raises ``StoreUnavailable``."""
        return await find_suspects(self.parts.model, self.make_scorer(), message_keys)
