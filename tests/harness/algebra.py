"""The state of a model in Redis, the same state summed over its ledger, and a follower: all must be equal."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nbstream.bayes.columns import CLASSES, label_of
from nbstream.bayes.counts import is_sum
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model

State = tuple[dict[str, dict[bytes, int]], dict[bytes, int]]
"""Counts by class, and totals."""


NOTHING: State = ({"ham": {}, "spam": {}}, {})
"""The state of a model that has learned nothing, or has unlearned everything."""


async def stored(model: Model, *, automatic: bool = False) -> State:
    """Counts by class, and totals, exactly as they are in Redis: of people, or automatic."""
    columns = (await model.stored_totals())[automatic].columns
    counts, names = {}, {b"vocabulary:auto" if automatic else b"vocabulary": b"vocabulary"}
    for label, column in zip(CLASSES if automatic else columns, columns, strict=True):
        fields: Any = await model.client.hgetall(model.keys.counts(column))
        counts[label] = {token: int(count) for token, count in fields.items()}
        names |= {f"{what}:{column}".encode(): f"{what}:{label}".encode() for what in ("messages", "tokens")}
    totals: Any = await model.client.hgetall(model.keys.totals)
    return counts, {names[name]: int(value) for name, value in totals.items() if name in names}


def by_label(counts: dict[str, dict[bytes, int]]) -> dict[str, dict[bytes, int]]:
    """The same counts of ham, with all kinds of it, and of spam."""
    sums: dict[str, Counter[bytes]] = {label: Counter() for label in CLASSES}
    for column, of_column in counts.items():
        sums[label_of(column)].update(of_column)
    return {label: {name: count for name, count in of_label.items() if count} for label, of_label in sums.items()}


async def live_entries(model: Model, *, automatic: bool = False) -> dict[str, LedgerEntry]:
    """Each message that people taught, or that was learned without them, by its key."""
    prefix = model.keys.ledger("")
    names = [key.decode() async for key in model.client.scan_iter(f"{prefix}*", count=1000)]
    entries = {name.removeprefix(prefix): await model.entry(name.removeprefix(prefix)) for name in names}
    return {key: entry for key, entry in entries.items() if entry and entry.is_automatic == automatic}


async def summed(model: Model, *, automatic: bool = False) -> State:
    """The state that must be stored: the sum over the live entries of weight times tokens, and of their sums."""
    counts: dict[str, Counter[bytes]] = {label: Counter() for label in CLASSES}
    totals: Counter[bytes] = Counter()
    for entry in (await live_entries(model, automatic=automatic)).values():
        column = entry.label if automatic else entry.column
        totals[f"messages:{column}".encode()] += 1
        totals[f"tokens:{column}".encode()] += entry.weight * len(entry.tokens)
        counts.setdefault(column, Counter()).update(dict.fromkeys(entry.tokens, entry.weight))
        counts[column].update(dict(entry.sums))
    present = {
        name
        for of_column in counts.values()
        for name, count in of_column.items()
        if count > 0 and not is_sum(name)
    }
    totals[b"vocabulary"] = len(present)
    return (
        {column: {name: n for name, n in of_column.items() if n} for column, of_column in counts.items()},
        {name: value for name, value in totals.items() if value},
    )


async def prequential_scores(model: Model) -> dict[str, set[bytes]]:
    """The prequential scores of each class, exactly as they are in Redis."""
    prequential_scores_of = {}
    for label, key in zip(CLASSES, model.keys.prequential_scores, strict=True):
        members: Any = await model.client.zrange(key, 0, -1)
        prequential_scores_of[label] = set(members)
    return prequential_scores_of


async def prequential_scores_of_entries(model: Model) -> dict[str, set[bytes]]:
    """The prequential scores of the live entries: stored while there are no more than the limit."""
    entries = (await live_entries(model)).values()
    return {
        label: {entry.prequential_score for entry in entries if entry.label == label and entry.prequential_score}
        for label in CLASSES
    }


async def equals_redis_exactly(followed: FollowedCounts, model: Model) -> bool:
    """Whether the follower holds the counts and prequential scores that are in Redis, and the same totals."""
    counts, _ = await stored(model)
    names = list({name for of_class in counts.values() for name in of_class})
    rows, totals = await followed.look_up_columns(names)
    people, _ = await model.stored_totals()
    return (
        rows.tolist() == [[counts.get(column, {}).get(name, 0) for column in totals.columns] for name in names]
        and totals == people.in_columns(totals.columns)
        and followed.totals == await model.totals()
        and all(
            {score.pack() for score in followed.loaded_prequential_scores[label].scores()} == firsts
            for label, firsts in (await prequential_scores(model)).items()
        )
    )
