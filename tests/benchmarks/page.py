"""The page ACCURACY.md: targets and results, and the results of other filters.

Rules: a figure on the page is a measure of a run, or a fact of the plan; a target is met or not by the figure
before it is rounded; what is undefined is a dash.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from nbstream import __version__
from tests.benchmarks.plan import (
    AUTOLEARN_RUNS,
    BUDGET_RUNS,
    DEFAULT_GROUPS,
    DEFAULT_RUNS,
    DELAY,
    DELAYED,
    FIRST_HALF,
    HALF,
    INBOX,
    INBOX_GROUPS,
    MOST_TOKENS,
    PEERS,
    STREAMS,
    TARGETS,
    WARM_UP,
    Group,
)
from tests.benchmarks.runs import OFF, Measures, Outcome, Run

MIN_P_VALUE = 0.05
MISSED_TIMES, MISSED_PLUS = 1.5, 1.0  # percentage points

NAMES = {
    "one_minus_auc": "(1-AUC)%", "fn_at_fp_0_1": "FN@0.1%FP", "fn_at_fp_0_5": "FN@0.5%FP",
    "hm": "hm%", "sm": "sm%", "lam": "lam%", "calibration_error": "ECE",
}  # fmt: skip
LEARNS = "learns without people"
DISBELIEVED, DISBELIEVED_TWICE = "contradictions not believed %", "not believed when said twice %"
TARGET_NAMES = {**NAMES, "disbelieved": DISBELIEVED, "disbelieved_twice": DISBELIEVED_TWICE}

INTRODUCTION = """\
# Accuracy

Written by `make accuracy CORPORA=DIR`, DIR being the folder of the archives, with nbstream {nbstream} and
Python {python}. A run is one `nbstream evaluate`: each message is scored before its label is learned, in the
order of the stream, from an empty model, in the default configuration unless another is named. All figures
except the milliseconds are the same each time. The constants of the filter were chosen on these same mail
streams.

- **trec07p-20k**: the first 20,000 messages of the 2007 TREC Public Spam Corpus, as they were delivered;
  **trec07p-b**: its messages 40,001 to 60,000.
- **corrected**: the same messages with the labels of `docs/corrected-labels.tsv`, for learning and for measuring;
  all other rows have the published labels.
- **spamassassin**: SpamAssassin's public corpus; **2002h2** is July to December 2002 in the order of time,
  **shuffled** is all of it in one random order.
- **sms**: the training part of the SMS Spam Collection (UCI), as texts.

Header fields that other filters wrote are removed from the mail. (1-AUC)%: pairs of a ham and a spam in the
wrong order. FN@0.1%FP: spam missed, in percent, when the threshold costs one ham in a thousand. hm%: ham called
spam. sm%: spam called anything else, also unsure. lam%: their average on the logit scale. ECE: the mean
distance of P(spam) from the share of spam, over 15 bins of equally many messages. Where a row is of several
seeds, a figure is their mean, with the least and the greatest in brackets.
"""

TARGETS_TEXT = """\
## Targets

Targets on contradictions are explained [below](#contradictions), those of the inbox regime
[there](#the-regime-of-real-life). After `first:N` the messages without labels are measured.
"""

DEFAULT_TEXT = """\
## The default configuration
"""

COST_TEXT = """\
Labels that changed the model, distinct tokens of a message, and milliseconds to check and to learn a message,
with the counts in memory and as many runs at a time as there are cores:
"""

INBOX_TEXT = """\
## The regime of real life

`--regime inbox --taught N`: the labels of the first N messages are learned, as of old mail. After them a person
moves three in ten of the spam in the inbox (unsure spam too) to Junk, and rescues three in ten of the ham in Junk,
50 messages later, and says nothing else. Measured are the messages after the first N. Corrections: labels of mail
in the wrong folder. Not believed: see [contradictions](#contradictions).
"""

CONTRADICTIONS_TEXT = """\
## Contradictions

A label contradicts the check if P(spam) is on the other side of `verdict.unsure`. It is believed if the same
message, checked again after the lesson, is on the label's side, or would be if the person reinforced the label.
"""

AUTOLEARN_TEXT = """\
## Learning without people

`--regime errors`: people correct wrong verdicts, and label nothing else. `first:N`: the first N messages are
labelled, and none after. `spam-only`: three in ten of the spam in the inbox are moved, 50 messages later, and ham
never; what lay unmoved for 200 messages counts as kept. Without automatic learning (`autolearn: null`), and with
it, the default. Labels are those of people. First verdict: the message before which enough was learned for one.
"""

BUDGETS_TEXT = """\
## Budgets

`verdict: {max_false_positive_rate: R}`, in percent of the ham; counted from the first message for which the
budget was guaranteed. p: the probability of that many lost ham or more if the true rate were exactly R; from 0.05
on the budget counts as kept. Spam missed is compared with the lowest fixed threshold that would have kept the
budget over the same messages, which is known only afterwards; the aim is one and a half times that, plus one
percentage point. If only errors are labelled, nothing is guaranteed, and `spam: 0.95` holds: the rate is reported
without an aim.
"""

PEERS_TEXT = """\
## Other filters

(1-AUC)% · hm% / sm% at its own threshold · FN@0.1%FP, all messages, every label at once, each filter empty at
first. The others were measured with the same stripped files and the same protocol, in the versions of Debian
12: bogofilter and crm114 with one process per message, SpamAssassin's Bayes plugin alone in one process,
rspamd's Bayes alone over HTTP and Redis; CPU milliseconds to classify / to learn a message. The milliseconds of
nbstream are for both, from the table above. Its sm% counts messages as missed that are unsure while the model
is still learning; the row without its first messages has no counterpart among the others.
"""

Rows: TypeAlias = Iterable[Sequence[str]]


def page(outcomes: Mapping[Run, Outcome]) -> str:
    """Return the page of what was measured; rows of other runs, and tables without rows, are left out."""
    run, measures = "stream and options", " | ".join(NAMES.values())
    tables: list[tuple[str, str, Rows]] = [
        (
            TARGETS_TEXT,
            f"{run} | measure | from message | at most | reached | ",
            _targets_rows(outcomes),
        ),
        (DEFAULT_TEXT, f"{run} | from message | {measures}", _default_rows(outcomes)),
        (COST_TEXT, f"{run} | learned | tokens | ms", _cost_rows(outcomes)),
        (
            INBOX_TEXT,
            f"stream | taught | {LEARNS} | hm% | sm% | (1-AUC)% | FN@0.1%FP | corrections | {DISBELIEVED}",
            _inbox_rows(outcomes),
        ),
        (
            CONTRADICTIONS_TEXT,
            f"{run} | contradictions | not believed % | {DISBELIEVED_TWICE}",
            _contradiction_rows(outcomes),
        ),
        (
            AUTOLEARN_TEXT,
            f"{run} | {LEARNS} | from message | {measures} | labels | first verdict",
            _autolearn_rows(outcomes),
        ),
        (
            BUDGETS_TEXT,
            "stream and options | R | guaranteed from | ham | lost | lost % | p | spam missed % | best fixed % | ",
            _budget_rows(outcomes),
        ),
        (PEERS_TEXT, f"filter | {' | '.join(STREAMS)} | ms", _peer_rows(outcomes)),
    ]
    introduction = INTRODUCTION.format(nbstream=__version__, python=platform.python_version())
    sections = ((text, heads, list(rows)) for text, heads, rows in tables)
    return "\n".join([introduction, *(f"{text}\n{table(heads, rows)}" for text, heads, rows in sections if rows)])


def _targets_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for target in TARGETS:
        if not _has(outcomes, target.runs):
            continue
        values = [_measured(outcomes[run], target.measure, target.first) for run in target.runs]
        digits = _digits(target.measure)
        yield (
            f"{_title(target.runs)}{_of_seeds(target.runs)}",
            TARGET_NAMES[target.measure],
            f"{target.first:,}",
            _number(target.at_most, digits),
            _mean_and_range(values, digits),
            _judged(_mean(values), target.at_most, digits),
        )
    if _has(outcomes, DEFAULT_RUNS):
        tokens = max(outcomes[run].tokens_per_message or 0 for run in DEFAULT_RUNS)
        verdict = _judged(tokens, MOST_TOKENS, 0)
        yield "the most of all", "tokens a message", "1", _number(MOST_TOKENS, 0), _number(tokens, 0), verdict


def _default_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for group in DEFAULT_GROUPS:
        if not _has(outcomes, group):
            continue
        for first in _first_messages(group[0]):
            measures = [outcomes[run].measures(first) for run in group]
            yield f"{_title(group)}{_of_seeds(group)}", f"{first:,}", *_figures(measures)


def _first_messages(run: Run) -> tuple[int, ...]:
    """From which messages on a run is measured: all, and those that come after the model had the time to learn."""
    if run.regime == FIRST_HALF.regime:
        return (HALF + 1,)
    return 1, 2 * DELAY + 1 if run.regime == DELAYED.regime else WARM_UP + 1


def _cost_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for run in (group[0] for group in DEFAULT_GROUPS if group[0] in outcomes):
        outcome = outcomes[run]
        milliseconds = f"{1000 * outcome.seconds_per_message:.2f}"
        yield _title((run,)), f"{outcome.learned:,}", _number(outcome.tokens_per_message, 0), milliseconds


def _inbox_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for group in INBOX_GROUPS:
        if not _has(outcomes, group):
            continue
        run, of_group = group[0], [outcomes[run] for run in group]
        yield (
            run.stream,
            f"{run.taught:,}",
            _yes_or_no(yes=run.autolearn != OFF),
            *(
                _mean_and_range([_measured(outcome, name, run.taught + 1) for outcome in of_group], _digits(name))
                for name in ("hm", "sm", "one_minus_auc", "fn_at_fp_0_1")
            ),
            _mean_and_range([outcome.corrections for outcome in of_group], 0),
            _mean_and_range([outcome.disbelieved for outcome in of_group], 2),
        )


def _yes_or_no(*, yes: bool) -> str:
    return "yes" if yes else "no"


def _contradiction_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for group in (*DEFAULT_GROUPS, *INBOX.values()):
        if _has(outcomes, group):
            of_group = [outcomes[run] for run in group]
            yield (
                f"{_title(group)}{_of_seeds(group)}",
                _mean_and_range([outcome.contradictions for outcome in of_group], 0),
                _mean_and_range([outcome.disbelieved for outcome in of_group], 2),
                _mean_and_range([outcome.disbelieved_twice for outcome in of_group], 2),
            )


def _autolearn_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for run in (run for pair in AUTOLEARN_RUNS for run in pair if run in outcomes):
        outcome, learns = outcomes[run], _yes_or_no(yes=run.autolearn != OFF)
        for first in _first_messages_without_people(run):
            figures = _figures([outcome.measures(first)])
            yield (
                *(_title((run,)), learns, f"{first:,}", *figures),
                *(f"{outcome.learned:,}", _number(outcome.first_verdict, 0)),
            )


def _first_messages_without_people(run: Run) -> tuple[int, ...]:
    """From which messages on a run is measured where people label little."""
    match run.regime.split(":"):
        case "first", taught:
            return (int(taught) + 1,)
        case ("spam-only",):
            return 201, WARM_UP + 1, 5001
    return 1, WARM_UP + 1


def _budget_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    for run in (run for run in BUDGET_RUNS if run in outcomes):
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
            _title((run,)),
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


def _peer_rows(outcomes: Mapping[Run, Outcome]) -> Rows:
    if not _has(outcomes, [Run(stream) for stream in STREAMS]):
        return
    ours = [outcomes[Run(stream)] for stream in STREAMS]
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


def _has(outcomes: Mapping[Run, Outcome], runs: Iterable[Run]) -> bool:
    return all(run in outcomes for run in runs)


def _title(group: Group) -> str:
    words = group[0].options_without_seed
    return f"{group[0].stream} `{' '.join(words)}`" if words else group[0].stream


def _of_seeds(group: Group) -> str:
    return f", seeds 0 to {len(group) - 1}" if len(group) > 1 else ""


def _figures(measures: Sequence[Measures]) -> list[str]:
    """The measures of a group by their names: the figure of one run, or mean and range of several."""
    return [_mean_and_range([_value(each, name) for each in measures], _digits(name)) for name in NAMES]


def _measured(outcome: Outcome, measure: str, first: int) -> float | None:
    if measure in {"disbelieved", "disbelieved_twice"}:
        share: float | None = getattr(outcome, measure)
        return share
    return _value(outcome.measures(first), measure)


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; of runs without a contradiction, which have no share of them, that of the others."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


def _mean_and_range(values: Sequence[float | None], digits: int) -> str:
    defined = [value for value in values if value is not None]
    if len(values) == 1 or not defined:
        return _number(_mean(values), digits)
    return f"{_number(_mean(values), digits)} ({min(defined):.{digits}f} to {max(defined):.{digits}f})"


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


def table(heads: str, rows: Rows) -> str:
    names = heads.split(" | ")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
