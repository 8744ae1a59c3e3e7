"""The page ACCURACY.md: targets and results, alternatives, and the results of other filters.

Rules: a figure on the page is a measure of a run, or a fact of the plan; a target is met or not by the figure
before it is rounded; what is undefined is a dash.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from nbstream import __version__
from tests.benchmarks.plan import (
    ALTERNATIVES,
    AUTOLEARN_RUNS,
    BUDGET_RUNS,
    DEFAULT_RUNS,
    DELAY,
    DELAYED,
    MAIL,
    MOST_TOKENS,
    PEERS,
    TARGETS,
    WARM_UP,
    Target,
)
from tests.benchmarks.runs import Measures, Outcome, Run

MIN_P_VALUE = 0.05
MISSED_TIMES, MISSED_PLUS = 1.5, 1.0  # percentage points

NAMES = {
    "one_minus_auc": "(1-AUC)%", "fn_at_fp_0_1": "FN@0.1%FP", "fn_at_fp_0_5": "FN@0.5%FP",
    "hm": "hm%", "sm": "sm%", "lam": "lam%", "calibration_error": "ECE",
}  # fmt: skip

TEXT = """\
# Accuracy

Written by `make accuracy CORPORA=DIR`, DIR being the folder of the archives, with nbstream {nbstream} and
Python {python}. A run is one `nbstream evaluate`: each message is scored before its label is learned, in the
order of the stream, from an empty model, in the default configuration unless another is named. All figures
except the milliseconds are the same each time. The constants of the filter were chosen on these same mail
streams.

- **trec07p-20k**: the first 20,000 messages of the 2007 TREC Public Spam Corpus, as they were delivered.
- **spamassassin**: SpamAssassin's public corpus; **2002h2** is July to December 2002 in the order of time,
  **shuffled** is all of it in one random order.
- **sms**: the training part of the SMS Spam Collection (UCI), as texts.

Header fields that other filters wrote are removed from the mail. (1-AUC)%: pairs of a ham and a spam in the
wrong order. FN@0.1%FP: spam missed, in percent, when the threshold costs one ham in a thousand. hm%: ham called
spam. sm%: spam called anything else, also unsure. lam%: their average on the logit scale. ECE: the mean
distance of P(spam) from the share of spam, over 15 bins of equally many messages.

## Targets

{targets}
## The default configuration

{default}
Labels that changed the model, distinct tokens of a message, and milliseconds to check and to learn a message,
with the counts in memory and as many runs at a time as there are cores:

{cost}
## Alternatives

(1-AUC)% · FN@0.1%FP, every label at once; the strongest clues of the multinomial model vote. An alternative
that ranks worse on one stream is lost. More of what was tried is in [Experiments](../../docs/experiments.md).

{alternatives}
## Learning without people

`--regime errors`: people correct wrong verdicts, and label nothing else; with `autolearn: {{}}` messages of
which a check is sure are learned as well. Labels are those of people.

{autolearn}
## Budgets

`verdict: {{max_false_positive_rate: R}}`, in percent of the ham; counted from the first message for which the
budget was promised. p: the probability of that many lost ham or more if the true rate were exactly R; from 0.05
on the budget counts as kept. Spam missed is compared with the lowest fixed threshold that would have kept the
budget over the same messages, which is known only afterwards; the aim is one and a half times that, plus one
percentage point. If only errors are labelled, with `until_promised: 0.95`, nothing can be promised: the rate is
reported without an aim.

{budgets}
## Other filters

(1-AUC)% · hm% / sm% at its own threshold · FN@0.1%FP, all messages, every label at once, each filter empty at
first. The others were measured with the same stripped files and the same protocol, in the versions of Debian
12: bogofilter and crm114 with one process per message, SpamAssassin's Bayes plugin alone in one process,
rspamd's Bayes alone over HTTP and Redis; CPU milliseconds to classify / to learn a message. The milliseconds of
nbstream are for both, from the table above. Its sm% counts messages as missed that are unsure while the model
is still learning; the row without its first messages has no counterpart among the others.

{peers}"""


def page(outcomes: Mapping[Run, Outcome]) -> str:
    """Return the page for the outcomes of ``RUNS``."""
    run, streams = "stream and options", " | ".join(MAIL)
    return TEXT.format(
        nbstream=__version__,
        python=platform.python_version(),
        targets=_table(f"{run} | measure | from message | at most | reached | ", _targets_rows(outcomes)),
        default=_table(f"{run} | from message | {' | '.join(NAMES.values())}", _default_rows(outcomes)),
        cost=_table(f"{run} | learned | tokens | ms", _cost_rows(outcomes)),
        alternatives=_table(f"`model` | messages | {streams} | ", _alternative_rows(outcomes)),
        autolearn=_table(
            f"stream | `autolearn` | from message | {' | '.join(NAMES.values())} | labels",
            _autolearn_rows(outcomes),
        ),
        budgets=_table(
            "stream and options | R | promised from | ham | lost | lost % | p | spam missed % | best fixed % | ",
            _budget_rows(outcomes),
        ),
        peers=_table(f"filter | {streams} | ms", _peer_rows(outcomes)),
    )


def _targets_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    for target in TARGETS:
        reached = _reached(target, outcomes)
        of = f", mean of seeds 0 to {len(target.runs) - 1}" if len(target.runs) > 1 else ""
        digits = _digits(target.measure)
        yield (
            f"{_title(target.runs[0], seed=False)}{of}",
            NAMES[target.measure],
            f"{target.first:,}",
            _number(target.at_most, digits),
            _number(reached, digits),
            _judged(reached, target.at_most, digits),
        )
    tokens = max(outcomes[run].tokens_per_message or 0 for run in DEFAULT_RUNS)
    verdict = _judged(tokens, MOST_TOKENS, 0)
    yield "the most of all", "tokens a message", "1", _number(MOST_TOKENS, 0), _number(tokens, 0), verdict


def _reached(target: Target, outcomes: Mapping[Run, Outcome]) -> float | None:
    values = [_value(outcomes[run].measures(target.first), target.measure) for run in target.runs]
    defined = [value for value in values if value is not None]
    return fmean(defined) if len(defined) == len(values) else None


def _default_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    for run in DEFAULT_RUNS:
        for first in (1, 2 * DELAY + 1 if run == DELAYED else WARM_UP + 1):
            measures = outcomes[run].measures(first)
            yield (_title(run), f"{first:,}", *(_number(_value(measures, name), _digits(name)) for name in NAMES))


def _cost_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    for run in DEFAULT_RUNS:
        outcome = outcomes[run]
        milliseconds = f"{1000 * outcome.seconds_per_message:.2f}"
        yield _title(run), f"{outcome.learned:,}", _number(outcome.tokens_per_message, 0), milliseconds


def _alternative_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    for limit in dict.fromkeys([None, *ALTERNATIVES.values()]):
        # The first messages of a run are what a run over them alone is: nothing later is known to it.
        ours = [outcomes[Run(stream)].measures(last=limit) for stream in MAIL]
        messages = f"the first {limit:,}" if limit else "all"
        yield "the default", messages, *map(_ranking, ours), "kept"
        for model in (model for model, most in ALTERNATIVES.items() if most == limit):
            theirs = [outcomes[Run(stream, model=model, limit=limit)].measures() for stream in MAIL]
            yield f"`{model}`", messages, *map(_ranking, theirs), _compared(theirs, ours)


def _autolearn_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    for run in (run for pair in AUTOLEARN_RUNS for run in pair):
        for first in (1, WARM_UP + 1):
            measures = outcomes[run].measures(first)
            figures = [_number(_value(measures, name), _digits(name)) for name in NAMES]
            yield run.stream, f"`{run.autolearn}`", f"{first:,}", *figures, f"{outcomes[run].learned:,}"


def _budget_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    for run in BUDGET_RUNS:
        budget = outcomes[run].budget
        assert budget is not None
        rate, lost, missed, best = (
            None if budget[name] is None else 100 * float(budget[name] or 0.0)
            for name in ("asked", "realised", "spam_missed", "spam_missed_best")
        )
        is_kept = (budget["p_value"] or 0.0) >= MIN_P_VALUE
        judged = "-"
        if run.regime == "immediate" and missed is not None and best is not None:
            within = _judged(missed, MISSED_TIMES * best + MISSED_PLUS, 2)
            judged = f"{'kept' if is_kept else '**not kept**'}, {within}"
        yield (
            _title(run),
            f"{rate:g} %",
            _number(budget["since"], 0),
            _number(budget["ham"], 0),
            _number(budget["ham_lost"], 0),
            _number(lost, 3),
            _number(budget["p_value"], 2),
            _number(missed, 2),
            _number(best, 2),
            judged,
        )


def _peer_rows(outcomes: Mapping[Run, Outcome]) -> Iterable[Sequence[str]]:
    ours = [outcomes[Run(stream)] for stream in MAIL]
    seconds = [outcome.seconds_per_message for outcome in ours]
    yield (
        f"**nbstream {__version__}**",
        *(_summary(outcome.measures()) for outcome in ours),
        f"{1000 * min(seconds):.1f} to {1000 * max(seconds):.1f}",
    )
    yield f"without the first {WARM_UP:,}", *(_summary(outcome.measures(WARM_UP + 1)) for outcome in ours), ""
    for name, figures in PEERS.items():
        yield name, *figures


def _judged(reached: float | None, at_most: float, digits: int) -> str:
    if reached is None:
        return "-"
    return "met" if reached <= at_most else f"**not met** by {_number(reached - at_most, digits)}"


def _compared(theirs: Sequence[Measures], ours: Sequence[Measures]) -> str:
    pairs = [
        (their.one_minus_auc or 0.0, our.one_minus_auc or 0.0) for their, our in zip(theirs, ours, strict=True)
    ]
    better = sum(their < our for their, our in pairs)
    return (
        f"{'lost' if any(their > our for their, our in pairs) else 'no worse'}: better on {better} of {len(pairs)}"
    )


def _title(run: Run, *, seed: bool = True) -> str:
    words = (
        run.options if seed or not run.label_noise else Run(run.stream, label_noise=run.label_noise).options[:2]
    )
    return f"{run.stream} `{' '.join(words)}`" if words else run.stream


def _ranking(measures: Measures) -> str:
    return f"{_number(measures.one_minus_auc, 4)} · {_number(measures.fn_at_fp_0_1, 2)}"


def _summary(measures: Measures) -> str:
    verdicts = f"{_number(measures.hm, 2)} / {_number(measures.sm, 2)}"
    return f"{_number(measures.one_minus_auc, 4)} · {verdicts} · {_number(measures.fn_at_fp_0_1, 2)}"


def _value(measures: Measures, name: str) -> float | None:
    value: float | None = getattr(measures, name)
    return value


def _digits(measure: str) -> int:
    return 4 if measure in {"one_minus_auc", "calibration_error"} else 2


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _table(heads: str, rows: Iterable[Sequence[str]]) -> str:
    names = heads.split(" | ")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
