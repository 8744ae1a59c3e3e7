"""The plan of the accuracy runs: the runs, the targets, and the results of other filters.

Rules: the figures of other filters are constants; the page says how they were measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks.runs import Run

TREC, IN_TIME, SHUFFLED, SMS = "trec07p-20k", "spamassassin 2002h2", "spamassassin shuffled", "sms"
MAIL = (TREC, IN_TIME, SHUFFLED)
WARM_UP = 1000  # messages
DELAY = 1000  # messages
MOST_TOKENS = 600

NOISY = tuple(Run(TREC, label_noise=0.02, seed=seed) for seed in range(5))
UNSURE, DELAYED = Run(TREC, "unsure"), Run(TREC, f"delayed:{DELAY}")


@dataclass(frozen=True, slots=True)
class Target:
    """``measure``, over the messages from ``first`` on, is to be ``at_most`` this; of several runs, their mean."""

    runs: tuple[Run, ...]
    measure: str
    first: int
    at_most: float


def _targets(runs: tuple[Run, ...], first: int = 1, **at_most: float) -> list[Target]:
    """Ranking is measured from ``first`` on; verdicts and probabilities when the model had the time to learn."""
    ranking = {"one_minus_auc", "fn_at_fp_0_1"}
    return [Target(runs, name, first if name in ranking else WARM_UP + 1, most) for name, most in at_most.items()]


TARGETS = [
    *_targets((Run(TREC),), one_minus_auc=0.004, fn_at_fp_0_1=0.35, hm=0.15, sm=0.5, calibration_error=0.01),
    *_targets((UNSURE,), one_minus_auc=0.02, fn_at_fp_0_1=1.0, hm=0.3, sm=1.0),
    *_targets((DELAYED,), 2 * DELAY + 1, one_minus_auc=0.015, fn_at_fp_0_1=7.0),
    *_targets(NOISY, one_minus_auc=0.01, fn_at_fp_0_1=1.5),
    *_targets((Run(IN_TIME),), one_minus_auc=0.075, fn_at_fp_0_1=14, hm=0.5, sm=2.5, calibration_error=0.02),
    *_targets((Run(SHUFFLED),), one_minus_auc=0.065, fn_at_fp_0_1=8, hm=0.5, sm=2.5, calibration_error=0.02),
]

DEFAULT_RUNS = (
    Run(TREC), UNSURE, DELAYED, *NOISY,
    Run(IN_TIME), Run(IN_TIME, "unsure"), Run(IN_TIME, "errors"), Run(SHUFFLED), Run(SMS),
)  # fmt: skip

# The section ``model`` of the configuration, and how many messages; None is all.
ALTERNATIVES: dict[str, int | None] = {
    "{event_models: {multinomial: {alpha: 1}}, learning_weights: full}": None,
    "{learning_weights: full}": None,
    "{event_models: {multinomial: {alpha: null, m: 30}}}": None,
    "{event_models: {categorical: {}}}": None,
    "{event_models: {gaussian: {}}}": None,
    "{event_models: {categorical: {}, gaussian: {}}}": None,
    # Each check after a lesson passes over the whole vocabulary.
    "{event_models: {multinomial: null, bernoulli: {}}, learning_weights: full}": 3000,
}

# Without and with ``autolearn``; where every label is given it has nothing to learn.
AUTOLEARN_RUNS = tuple((Run(stream, "errors"), Run(stream, "errors", autolearn="{}")) for stream in MAIL)

# The budgets of false positives. Where errors are corrected, nothing is one until something is called spam.
BUDGETS = (0.001, 0.005, 0.01)
BUDGET_RUNS = tuple(
    Run(stream, regime, verdict=f"{{max_false_positive_rate: {rate:g}{until}}}")
    for regime, until in (("immediate", ""), ("errors", ", until_promised: 0.95"))
    for stream in MAIL
    for rate in BUDGETS
)

RUNS = tuple(
    dict.fromkeys(
        (
            *DEFAULT_RUNS,
            *(Run(stream, model=model, limit=limit) for model, limit in ALTERNATIVES.items() for stream in MAIL),
            *(run for pair in AUTOLEARN_RUNS for run in pair),
            *BUDGET_RUNS,
        )
    )
)

# (1-AUC)%, hm% / sm% and FN@0.1%FP on each stream of MAIL, and milliseconds of CPU to classify / to learn.
PEERS = {
    "bogofilter 1.2.5": (
        "0.0244 · 0.00 / 13.2 · 1.93", "0.171 · 0.07 / 36.2 · 25.2", "0.157 · 0.05 / 27.5 · 14.6", "3.65 / 4.40",
    ),
    "SpamAssassin 4.0.1, Bayes": (
        "0.0312 · 0.76 / 0.87 · 5.16", "0.141 · 0.65 / 5.6 · 25.4", "0.098 · 0.51 / 3.0 · 9.8", "10.8 / 12.0",
    ),
    "rspamd 3.4, Bayes": (
        "0.483 · 0.45 / 7.9 · 18.1", "1.48 · 0.92 / 12.9 · 59.6", "0.832 · 1.28 / 7.8 · 79.3", "3.2 / 4.3",
    ),
    "crm114, OSB, thick threshold 10": (
        "0.0551 · 0.16 / 0.21 · 0.24", "0.181 · 0.77 / 4.4 · 37.0", "0.294 · 0.84 / 2.3 · 37.6", "4.5 / 0.2",
    ),
}  # fmt: skip
