"""The model: whether it can be used, what it has learned, and whether people still teach it."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from nbstream.assembly.policy import make_filter_policy
from nbstream.assembly.store import make_model, open_running_redis
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.largest_count import LARGE_SUMS, largest_count
from nbstream.errors import ConfigError, StoreIncompatible, StoreUnavailable
from nbstream.findings import note, ok, problem, warning
from nbstream.policy.budget import budget_promise
from nbstream.policy.verdict import ModelState
from nbstream.store.model.formats import SCHEMA_VERSION
from nbstream.store.redis_errors import store_errors
from nbstream.tokens import TOKENIZER_VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from nbstream.bayes.counts import Totals
    from nbstream.doctor.site import Site
    from nbstream.findings import Finding
    from nbstream.store.model.history import HistoryRecord
    from nbstream.store.model.model import Model

UNUSABLE = problem(
    "model.formats", "The model cannot be used: {error}.", "Do what the sentence says, then start the daemon."
)
FORMER_SCHEMA = note(
    "model.formats",
    "The model {name} has the schema {schema} of an older version.",
    "Run nbstream migrate with all daemons stopped: what is stored becomes smaller, and bulk lessons faster.",
)
FORMATS = ok("model.formats", "The model {name} has the schema {schema} and the tokenizer {tokenizer}.")
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
HALF_LIFE_ENDS = warning(
    "model.half_life",
    "In {left:.1f} half-lives nothing more can be learned.",
    "Run nbstream export, set another model.name, and run nbstream import: this moves the time base.",
)
NOT_TAUGHT = note(
    "model.feedback",
    "Nobody has taught the model in the last {days} days.",
    "Remind people how to correct verdicts, and see that moving a message to Junk teaches.",
)
ONLY_ONE_CLASS = warning(
    "model.feedback",
    "In the last {days} days {count} messages were taught as {label}, and none as {other}.",
    "See whether feedback as {other} arrives: out of Junk, and at the address for {other}.",
)
FEEDBACK = ok("model.feedback", "In the last {days} days {labels} were taught ({sources}).")
LAST_LESSON = ok("model.age", "The last lesson was {days:.1f} days ago.")
BUDGET_LEARNING = warning(
    "model.budget",
    "The budget of {rate:g} cannot be promised yet: {missing:,} more labelled ham messages are needed.",
    "Label all ham, or a fair sample; until then verdict.until_promised decides.",
)
BUDGET_BIASED = warning(
    "model.budget",
    "The budget of {rate:g} cannot be promised: the labels look like corrections only.",
    "Label all ham, or a fair sample, and not the mistakes alone.",
)
BUDGET_EXCEEDED = warning(
    "model.budget",
    "{lost} ham messages were called spam, and the budget of {rate:g} allowed {allowed:.1f}.",
    "Label more ham: the threshold rises by itself with each lost message; nbstream tune shows the choices.",
)
BUDGET = ok(
    "model.budget",
    "The budget of {rate:g} is promised; {lost} ham messages were called spam, and {allowed:.1f} were allowed.",
)
REMEMBERED_BRIEFLY = note(
    "model.remembered",
    "The {count} remembered messages reach back {hours:.0f} hours, not the {wanted} of memory.hours.",
    "Raise memory.messages, or mail can be taught by its id for less time.",
)
REMEMBERED = ok("model.remembered", "{count} checked messages are remembered, of at most {limit}.")

FEEDBACK_DAYS = 7
_DAY_SECONDS = 86_400.0
_MAX_RECORDS = 20_000
_FEW_LESSONS = 10
_RARE_SHARE = 0.05
_HALF_LIVES = 2.0
_FULL_SHARE = 0.95


async def examine_model(site: Site) -> Sequence[Finding]:
    """Look at the model in Redis; a Redis that is away is the finding of another check."""
    if not site.has_redis_to_ask:
        return []
    async with AsyncExitStack() as stack:
        try:
            clients = await stack.enter_async_context(open_running_redis(site.settings))
            model = await make_model(site.settings, clients.client).open(sign=False)
        except StoreIncompatible as error:
            return [UNUSABLE(error=str(error).rstrip("."))]
        except (ConfigError, StoreUnavailable):
            return []
        return [finding async for finding in _findings(site, model)]


async def _findings(site: Site, model: Model) -> AsyncIterator[Finding]:
    kind = FORMATS if model.formats.schema == SCHEMA_VERSION else FORMER_SCHEMA
    yield kind(name=model.keys.model, schema=model.formats.schema, tokenizer=TOKENIZER_VERSION)
    sums, totals = await model.look_up(LARGE_SUMS)
    for finding in _learned(site, totals):
        yield finding
    left = model.half_life.half_lives_left(time.time(), largest_count(totals, sums))
    if left is not None and left < _HALF_LIVES:
        yield HALF_LIFE_ENDS(left=left)
    async for finding in _feedback(model):
        yield finding
    async for finding in _budgets(site, model):
        yield finding
    async for finding in _remembered(site, model):
        yield finding


def _learned(site: Site, totals: Totals) -> Iterator[Finding]:
    learned = {label: int(count) for label, count in zip(CLASSES, totals.messages, strict=True)}
    state = ModelState(learned, site.settings.model.min_learned.model_dump())
    text = _counted(learned)
    count = sum(learned.values())
    share = learned["ham"] / max(1, count)
    if state.is_learning:
        missing = {
            label: count - learned[label] for label, count in state.needed.items() if count > learned[label]
        }
        yield LEARNING(missing=_counted(missing), learned=text)
    elif count >= _FEW_LESSONS and min(share, 1 - share) < _RARE_SHARE:
        yield ONE_SIDED(share=share, learned=text, rare="ham" if share < _RARE_SHARE else "spam")
    else:
        yield LEARNED(learned=text, share=share)
    limit = site.settings.model.max_tokens
    if limit is not None and totals.vocabulary_size >= _FULL_SHARE * limit:
        yield TOKENS_FULL(count=totals.vocabulary_size, limit=limit)


async def _feedback(model: Model) -> AsyncIterator[Finding]:
    now, newest = time.time(), None
    labels: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    async for record in _newest_records(model):
        newest = newest or record
        if record.at < now - FEEDBACK_DAYS * _DAY_SECONDS:
            break
        labels[record.label or "taken back"] += 1
        sources[record.note.source] += 1
    if newest is None or not labels:
        yield NOT_TAUGHT(days=FEEDBACK_DAYS)
    else:
        for label, other in (CLASSES, CLASSES[::-1]):
            if labels[label] >= _FEW_LESSONS and not labels[other]:
                yield ONLY_ONE_CLASS(days=FEEDBACK_DAYS, count=labels[label], label=label, other=other)
                break
        else:
            by_source = ", ".join(f"{source} {count}" for source, count in sources.most_common())
            yield FEEDBACK(days=FEEDBACK_DAYS, labels=_counted(labels), sources=by_source)
    if newest is not None:
        yield LAST_LESSON(days=max(0.0, now - newest.at) / _DAY_SECONDS)


async def _newest_records(model: Model) -> AsyncIterator[HistoryRecord]:
    count = 0
    async for record in model.history.records():
        yield record
        count += 1
        if count == _MAX_RECORDS:
            return


async def _budgets(site: Site, model: Model) -> AsyncIterator[Finding]:
    rates = sorted(make_filter_policy(site.settings).budget_rates)
    if not rates:
        return
    ham = (await model.first_scores())["ham"]
    for rate in rates:
        promise = budget_promise(ham, rate)
        seen, lost = ham.budget_use(rate)
        if promise.is_biased:
            yield BUDGET_BIASED(rate=rate)
        elif not promise.is_promised:
            yield BUDGET_LEARNING(rate=rate, missing=promise.ham_missing)
        else:
            kind = BUDGET_EXCEEDED if lost > rate * seen and lost > 1 else BUDGET
            yield kind(rate=rate, lost=lost, allowed=rate * seen)


async def _remembered(site: Site, model: Model) -> AsyncIterator[Finding]:
    memory = site.settings.memory
    if not memory.messages:
        return
    with store_errors():
        count: Any = await model.client.zcard(model.keys.recent)
        oldest: Any = await model.client.zrange(model.keys.recent, 0, 0, withscores=True)
    hours = (time.time() - oldest[0][1]) / 3600 if oldest else 0.0
    if count >= memory.messages and hours < memory.hours:
        yield REMEMBERED_BRIEFLY(count=count, hours=hours, wanted=memory.hours)
    else:
        yield REMEMBERED(count=count, limit=memory.messages)


def _counted(counts: dict[str, int] | Counter[str]) -> str:
    return " and ".join(f"{count} {label}" for label, count in counts.items())
