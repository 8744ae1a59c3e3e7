"""What Redis keeps: whether the model can be used, who teaches it, and senders that are allowed and not proved."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from nbstream.bayes.columns import CLASSES
from nbstream.daemon.assembly.policy import make_filter_policy
from nbstream.daemon.assembly.store import make_model, open_running_redis, open_sender_lists
from nbstream.daemon.model_lookups import budget_findings, describe_counts, learned_findings
from nbstream.errors import ConfigError, StoreIncompatible, StoreUnavailable
from nbstream.findings import note, ok, problem, warning
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.autolearn import model_state
from nbstream.policy.sender_lists import SITE, ListKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding
    from nbstream.store.model.history import HistoryRecord
    from nbstream.store.model.model import Model

UNUSABLE = problem("model.format", "The model cannot be used: {error}.", "Fix this, then start the daemon.")
FORMAT = ok("model.format", "The model {name} can be used.")
NOT_TAUGHT = note(
    "model.feedback",
    "Nothing was taught in the last {days} days.",
    "Remind users how to correct verdicts, and check that moving a message to Junk teaches.",
)
ONLY_ONE_CLASS = warning(
    "model.feedback",
    "In the last {days} days {count} messages were taught as {label}, but none as {other}.",
    "Check that feedback as {other} arrives: from moves out of Junk, and at the address for {other}.",
)
FEEDBACK = ok("model.feedback", "In the last {days} days {labels} were taught ({sources}).")
UNPROVABLE = warning(
    "lists",
    "The site's list allows {senders}, but trusted_authserv_ids is empty: no SPF, DKIM or DMARC results are "
    "read, so only a login reported by the mail server authenticates a sender.",
    "Add your own server to trusted_authserv_ids if it removes forged fields, or allow the networks of these "
    "senders.",
)

FEEDBACK_DAYS = 7
_DAY_SECONDS = 86_400.0
_MAX_RECORDS = 20_000
_FEW_LESSONS = 10
_SHOWN_SENDERS = 3


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
    yield FORMAT(name=model.keys.model)
    people, automatic = await model.stored_totals()
    totals = people.by_label
    settings = site.settings
    state = model_state(totals, settings.model.messages_needed, automatic if settings.autolearn else None)
    for finding in learned_findings(state, totals.vocabulary_size, settings.model.max_tokens):
        yield finding
    async for finding in _feedback(model):
        yield finding
    for finding in budget_findings(await model.prequential_scores(), totals, make_filter_policy(site.settings)):
        yield finding


async def _feedback(model: Model) -> AsyncIterator[Finding]:
    now = time.time()
    labels: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    async for record in _newest_records(model):
        if record.at < now - FEEDBACK_DAYS * _DAY_SECONDS:
            break
        labels[record.label or "taken back"] += 1
        sources[record.note.source] += 1
    if not labels:
        yield NOT_TAUGHT(days=FEEDBACK_DAYS)
    else:
        for label, other in (CLASSES, CLASSES[::-1]):
            if labels[label] >= _FEW_LESSONS and not labels[other]:
                yield ONLY_ONE_CLASS(days=FEEDBACK_DAYS, count=labels[label], label=label, other=other)
                break
        else:
            by_source = ", ".join(f"{source} {count}" for source, count in sources.most_common())
            yield FEEDBACK(days=FEEDBACK_DAYS, labels=describe_counts(labels), sources=by_source)


async def _newest_records(model: Model) -> AsyncIterator[HistoryRecord]:
    count = 0
    async for record in model.history.records():
        yield record
        count += 1
        if count == _MAX_RECORDS:
            return


async def examine_lists(site: Site) -> Sequence[Finding]:
    """Compare the entries that allow a sender with the settings that could prove it."""
    if site.settings.trusted_authserv_ids:
        return []
    senders = await _allowed_senders(site)
    if not senders:
        return []
    more = f" and {len(senders) - _SHOWN_SENDERS} more" if len(senders) > _SHOWN_SENDERS else ""
    return [UNPROVABLE(senders=", ".join(senders[:_SHOWN_SENDERS]) + more)]


async def _allowed_senders(site: Site) -> Sequence[str]:
    """Return the senders that the lists of the site allow, without networks."""
    patterns = [SenderPattern.parse(sender) for sender in site.settings.lists.allow]
    if site.has_redis_to_ask:
        with suppress(ConfigError, StoreUnavailable):  # the check of Redis says why
            async with open_sender_lists(site.settings) as lists:
                entries = await lists.entries(SITE)
            patterns += [entry.pattern for entry in entries if entry.kind is ListKind.ALLOW]
    return list(dict.fromkeys(pattern.text for pattern in patterns if pattern.network is None))
