"""The plan of the accuracy runs: the runs by section of the page, the targets, and the results of other filters.

Rules: runs that differ in their seed alone are a group, and the page gives their mean and range. The figures of
other filters where every label is given are constants; the page says how they were measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.benchmarks.runs import DEFAULTS, OFF, Run

Group: TypeAlias = tuple[Run, ...]
"""Runs that differ in their seed alone; mostly there is one."""

TREC, TREC_B, BOTH = "trec07p-20k", "trec07p-b", "trec07p-20k, then trec07p-b"
IN_TIME, SHUFFLED, SMS = "spamassassin 2002h2", "spamassassin shuffled", "sms"
MAIL = (TREC, IN_TIME, SHUFFLED)
STREAMS = (TREC, TREC_B, IN_TIME, SHUFFLED)
CORRECTED = {stream: f"{stream}, corrected" for stream in (TREC, TREC_B, BOTH)}
"""By stream the same messages with the labels of docs/corrected-labels.tsv, if any of them is there."""
WARM_UP = 1000  # messages
DELAY = 1000  # messages
HALF = 10_000  # messages of a stream of TREC
MOST_TOKENS = 600
SEEDS = 5


def seeds(run: Run) -> Group:
    """The run with each seed."""
    return tuple(replace(run, seed=seed) for seed in range(SEEDS))


def with_both_labels(*groups: Group) -> tuple[Group, ...]:
    """Each group, and after it the same runs over the corrected labels of its stream, if it has any."""
    return tuple(
        tuple(replace(run, stream=stream) for run in group)
        for group in groups
        for stream in (group[0].stream, CORRECTED.get(group[0].stream))
        if stream is not None
    )


NOISY, NOISY_B = (seeds(Run(stream, label_noise=0.02)) for stream in (TREC, TREC_B))
UNSURE, UNSURE_B = (Run(stream, "unsure") for stream in (TREC, TREC_B))
DELAYED = Run(TREC, f"delayed:{DELAY}")
FIRST_HALF, FIRST_HALF_B = (Run(stream, f"first:{HALF}") for stream in (TREC, TREC_B))

TAUGHT = {TREC: 500, TREC_B: 500, IN_TIME: 300, SHUFFLED: 300}
"""By stream the messages whose labels are all learned before the inbox regime begins."""

INBOX = {stream: seeds(Run(stream, "inbox", taught=taught)) for stream, taught in TAUGHT.items()}
INBOX_GROUPS = with_both_labels(
    *(
        tuple(replace(run, autolearn=autolearn) for run in group)
        for group in INBOX.values()
        for autolearn in (OFF, DEFAULTS)
    )
)


@dataclass(frozen=True, slots=True)
class Target:
    """``measure``, over the messages from ``first`` on, is to be ``at_most`` this; of several runs, their mean."""

    runs: Group
    measure: str
    first: int
    at_most: float


def _targets(runs: Group, first: int = 1, verdicts_first: int = WARM_UP + 1, **at_most: float) -> list[Target]:
    """Ranking is measured from ``first`` on; verdicts and probabilities when the model had the time to learn."""
    ranking = {"one_minus_auc", "fn_at_fp_0_1"}
    return [
        Target(runs, name, first if name in ranking else verdicts_first, most) for name, most in at_most.items()
    ]


def _inbox_targets(stream: str, **at_most: float) -> list[Target]:
    """They are for the corrected labels of the stream, where it has any."""
    first, corrected = TAUGHT[stream] + 1, CORRECTED.get(stream, stream)
    return _targets(tuple(replace(run, stream=corrected) for run in INBOX[stream]), first, first, **at_most)


_TREC, _TREC_B = Run(CORRECTED[TREC]), Run(CORRECTED[TREC_B])

TARGETS = [
    *_targets((_TREC,), one_minus_auc=0.0015, fn_at_fp_0_1=0.19, hm=0.10, sm=0.15, calibration_error=0.01),
    *_targets((_TREC_B,), one_minus_auc=0.003, fn_at_fp_0_1=0.4, hm=0.08, sm=0.25),
    *_targets((Run(CORRECTED[BOTH]),), one_minus_auc=0.0045, fn_at_fp_0_1=0.3),
    *_targets((Run(IN_TIME),), one_minus_auc=0.0529, fn_at_fp_0_1=11.4, hm=0.12, sm=3.5, calibration_error=0.02),
    *_targets((Run(SHUFFLED),), one_minus_auc=0.0309, fn_at_fp_0_1=2.5, hm=0.08, sm=2.2, calibration_error=0.02),
    *_targets((UNSURE,), one_minus_auc=0.012, fn_at_fp_0_1=0.5, hm=0.3, sm=1.0),
    *_targets((UNSURE_B,), one_minus_auc=0.012, fn_at_fp_0_1=0.5),
    *_targets((DELAYED,), 2 * DELAY + 1, one_minus_auc=0.0138, fn_at_fp_0_1=6.9),
    *_targets((FIRST_HALF,), HALF + 1, one_minus_auc=0.015, fn_at_fp_0_1=3),
    *_targets((FIRST_HALF_B,), HALF + 1, one_minus_auc=0.015, fn_at_fp_0_1=3),
    *_targets(NOISY, one_minus_auc=0.006, fn_at_fp_0_1=1.0),
    *_targets(NOISY_B, one_minus_auc=0.02),
    *_inbox_targets(TREC, hm=0.20, sm=0.8),
    *_inbox_targets(TREC_B, hm=0.15, sm=1.0),
    *_inbox_targets(IN_TIME, hm=0.6, sm=6),
    *_inbox_targets(SHUFFLED, hm=0.25, sm=4.5),
    *(
        target
        for stream in (*STREAMS, BOTH)
        for target in _targets((Run(stream),), 1, 1, disbelieved=5.0, disbelieved_twice=1.0)
    ),
    *(target for stream in STREAMS for target in _inbox_targets(stream, disbelieved=5.0, disbelieved_twice=1.0)),
]

DEFAULT_GROUPS = with_both_labels(
    (Run(TREC),), (Run(TREC_B),), (Run(BOTH),), (UNSURE,), (UNSURE_B,), (DELAYED,), (FIRST_HALF,), (FIRST_HALF_B,),
    NOISY, NOISY_B,
    (Run(IN_TIME),), (Run(IN_TIME, "unsure"),), (Run(IN_TIME, "errors"),), (Run(SHUFFLED),), (Run(SMS),),
)  # fmt: skip
DEFAULT_RUNS = tuple(run for group in DEFAULT_GROUPS for run in group)

# Without and with learning without people; where every label is given it has nothing to learn.
AUTOLEARN_RUNS = tuple(
    tuple(replace(run, autolearn=autolearn) for autolearn in (OFF, DEFAULTS))
    for stream in STREAMS
    for regime in ("errors", f"first:{TAUGHT[stream]}", "spam-only")
    for (run,) in with_both_labels((Run(stream, regime),))
)

# The budgets of false positives. Where errors are corrected, the fixed threshold holds.
BUDGETS = (0.001, 0.005, 0.01)
BUDGET_RUNS = tuple(
    Run(stream, regime, verdict=f"{{max_false_positive_rate: {rate:g}, spam: 0.95}}")
    for regime in ("immediate", "errors")
    for stream in (TREC, CORRECTED[TREC], IN_TIME, SHUFFLED)
    for rate in BUDGETS
)

SECTIONS: dict[str, tuple[Run, ...]] = {
    "default": DEFAULT_RUNS,
    "inbox": tuple(run for group in INBOX_GROUPS for run in group),
    "autolearn": tuple(run for pair in AUTOLEARN_RUNS for run in pair),
    "budgets": BUDGET_RUNS,
}
"""By section of the page the runs that it shows; targets, contradictions and peers show runs of these."""

RUNS = tuple(dict.fromkeys(run for runs in SECTIONS.values() for run in runs))

# (1-AUC)%, hm% / sm% and FN@0.1%FP on each stream of STREAMS, and milliseconds of CPU to classify / to learn.
PEERS = {
    "bogofilter 1.2.5": (
        "0.0244 · 0.00 / 13.2 · 1.93", "0.0396 · 0.04 / 17.0 · 3.10",
        "0.171 · 0.07 / 36.2 · 25.2", "0.157 · 0.05 / 27.5 · 14.6", "3.65 / 4.40",
    ),
    "SpamAssassin 4.0.1, Bayes": (
        "0.0312 · 0.76 / 0.87 · 5.16", "0.0562 · 0.54 / 1.07 · 6.16",
        "0.141 · 0.65 / 5.6 · 25.4", "0.098 · 0.51 / 3.0 · 9.8", "10.8 / 12.0",
    ),
    "rspamd 3.4, Bayes": (
        "0.483 · 0.45 / 7.9 · 18.1", "1.15 · 0.57 / 10.4 · 68.4",
        "1.48 · 0.92 / 12.9 · 59.6", "0.832 · 1.28 / 7.8 · 79.3", "3.2 / 4.3",
    ),
    "crm114, OSB, thick threshold 10": (
        "0.0551 · 0.16 / 0.21 · 0.24", "0.248 · 0.22 / 0.75 · 10.8",
        "0.181 · 0.77 / 4.4 · 37.0", "0.294 · 0.84 / 2.3 · 37.6", "4.5 / 0.2",
    ),
}  # fmt: skip
