"""``nbstream status``: what the model knows and still needs, and whether the policy in the file is in force.

Rules: everything is collected first and printed then, so that what cannot be asked leaves no half of an answer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import make_correspondent_reader, open_one_shot_filter
from nbstream.daemon.assembly.policy import make_rules
from nbstream.daemon.status import ask_daemon_status
from nbstream.engine.choice import ENVIRONMENT, choose_engine
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.evaluation.measures import finite_or_none
from nbstream.filter import learned_by_class
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.listeners.dovecot.spool import measure_backlog
from nbstream.policy.autolearn import model_state
from nbstream.policy.thresholds import PrequentialScores
from nbstream.policy.verdict import format_threshold
from nbstream.server.api_json import iso_time

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages
    from nbstream.terminal import Output


_LOOKED_AT = 1000  # of the messages that were checked last
_SHOWN_IDS = 5


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print the state of the model; ``StoreUnavailable`` (75), which says what waits, when Redis is away."""
    settings = _load_settings(options.config)
    try:
        members = await collect_status(settings)
    except StoreUnavailable as error:
        spool = _measure_spool(settings.state_dir)
        if spool == _EMPTY_SPOOL:
            raise
        raise StoreUnavailable(f"{error}\nthe spool does not need Redis: {_describe_spool(spool)}") from error
    output.show(list(describe_status(members, settings)), members)


def _load_settings(file: Path | None) -> Settings:
    try:
        return config.load_settings(config.find_config_file(file))
    except ConfigError as error:
        note = "a daemon that runs keeps the settings that it has read before"
        raise ConfigError(f"{error}\n{note}; nothing else is known without the file") from error


async def collect_status(settings: Settings) -> dict[str, Any]:
    """Ask Redis and the daemon, and return the members of the JSON object; a silent daemon is no error.

    Null is unknown, or a threshold that is never reached. Raises ``ConfigError``, ``StoreIncompatible`` or
    ``StoreUnavailable`` where Redis cannot be used.
    """
    daemon = ask_daemon_status(settings.state_dir)
    async with open_one_shot_filter(settings) as (spam_filter, model):
        store = make_correspondent_reader(settings, model.client)
        people, automatic = await model.stored_totals()
        totals = people.by_label
        state = model_state(totals, settings.model.messages_needed, automatic if settings.autolearn else None)
        learned = learned_by_class(people, settings.model.kinds)
        kinds = {kind: learned[kind] for kind in settings.model.kinds[1:]}  # without plain ham
        return {
            "model": settings.model.name,
            "state": str(state),
            "learned": dict(state.learned),
            "needed": dict(state.needed),
            **({"kinds": kinds} if kinds else {}),
            "tokens": totals.vocabulary_size,
            "recent": await _collect_recent(spam_filter.parts.checked_messages),
            "autolearn": bool(settings.autolearn),
            "autolearned": automatic.messages_by_label(),
            "implicit_ham": state.kept,
            "own_models": await OwnModelIndex(model.client, settings.model.name).count(),
            "correspondents": await store.count() if store else 0,
            **await _read_thresholds(settings, model),
            "redis": settings.redis.display_url,
            "spool": _measure_spool(settings.state_dir),
            "daemon_pid": daemon.pid,
            "workers": [
                {"pid": worker.pid, "state": worker.state, "since": iso_time(worker.since)}
                for worker in daemon.workers
            ],
            "engine": choose_engine().name,
            "engine_in_force": daemon.engine,
            "policy": config.policy_hash(settings),
            "policy_in_force": daemon.policy_hash,
            "config": str(settings.source) if settings.source else None,
        }


def _measure_spool(state_dir: Path) -> dict[str, int]:
    try:
        spool = measure_backlog(state_dir)
    except OSError as error:
        raise ConfigError(f"the spool in {state_dir} cannot be read: {error}") from error
    seconds = round(spool.oldest_seconds(time.time()))
    return {"waiting": spool.waiting, "oldest_seconds": seconds, "failed": spool.failed}


_EMPTY_SPOOL = {"waiting": 0, "oldest_seconds": 0, "failed": 0}


async def _collect_recent(checked_messages: RecentMessages | None) -> dict[str, Any]:
    """Return how many of the newest messages would be spam, were they not unlike learned spam, and some ids."""
    assert checked_messages is not None
    checked, unlike = 0, []
    async for message in checked_messages.newest(_LOOKED_AT):
        checked += 1
        if message.is_discounted:
            unlike.append(message.key)
    return {"checked": checked, "unlike_learned_spam": len(unlike), "unlike_ids": unlike[:_SHOWN_IDS]}


async def _read_thresholds(settings: Settings, model: Model) -> dict[str, Any]:
    """Return the default thresholds, and those of the recipient rules that have others."""
    rules = make_rules(settings)
    default = rules.default.policy
    policies = {rule.pattern.text: rule.policy for rule in rules.rules}
    budgets = any(policy.max_false_positive_rate for policy in (default, *policies.values()))
    scores = await model.prequential_scores() if budgets else PrequentialScores()
    others = [
        {"match": match, **_thresholds_to_json(policy.thresholds(scores))}
        for match, policy in policies.items()
        if policy != default
    ]
    return {**_thresholds_to_json(default.thresholds(scores)), "recipients": others}


def _thresholds_to_json(thresholds: Thresholds) -> dict[str, Any]:
    return {
        "unsure_from": thresholds.unsure,
        "spam_from": finite_or_none(thresholds.spam),
        "reject_from": finite_or_none(thresholds.reject),
        "guarantee": thresholds.guarantee or None,
    }


def describe_status(members: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    """Yield the lines of the text."""
    yield from _describe_model(members)
    yield f"redis    {members['redis']}"
    yield f"daemon   {describe_daemon(members)}"
    yield f"engine   {_describe_engine(members['engine_in_force'])}"
    yield f"state    {settings.state_dir}"
    if members["spool"] != _EMPTY_SPOOL:
        yield f"spool    {_describe_spool(members['spool'])}"
    yield f"config   {settings.source.absolute() if settings.source else 'defaults'}"
    policy, in_force = members["policy"], members["policy_in_force"]
    stale = "" if in_force in {None, policy} else f", but {in_force} is in force: nbstream reload"
    yield f"policy   {policy}{stale}"


def _describe_model(members: Mapping[str, Any]) -> Iterator[str]:
    needed = ", ".join(
        f"{label} {members['learned'][label]}/{count}" for label, count in members["needed"].items()
    )
    yield f"model    {members['model']}: {members['state']} (learned/needed: {needed})"
    yield f"verdict  {_describe_thresholds(members)}"
    for rule in members["recipients"]:
        yield f"         {rule['match']}: {_describe_thresholds(rule)}"
    if kinds := members.get("kinds"):
        yield f"kinds    {_describe_counts(kinds)}"
    yield f"tokens   {members['tokens']}"
    recent = members["recent"]
    if unlike := recent["unlike_learned_spam"]:
        share = 100 * unlike / recent["checked"]
        yield (
            f"new      {unlike} of the last {recent['checked']} messages ({share:.0f} %) would be spam were they "
            "not unlike learned spam: teach some of them"
        )
        yield f"         nbstream explain {recent['unlike_ids'][0]}"
    if members["own_models"]:
        yield f"own      models of users and domains: {members['own_models']}; nbstream model list"
    if members["correspondents"]:
        yield f"known    whom users wrote to, by {members['correspondents']} of their messages"
    if members["autolearn"] or any(members["autolearned"].values()):
        use = "on" if members["autolearn"] else "off, not used"
        kept = "; the ham is implicit ham, until people teach ham" if members["implicit_ham"] else ""
        counts = _describe_counts(members["autolearned"])
        yield f"auto     {use} (learned without people: {counts}{kept}); nbstream forget --auto drops it"


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def describe_daemon(members: Mapping[str, Any]) -> str:
    """Return whether a daemon runs, and the state of its workers."""
    if members["daemon_pid"] is None:
        return "not running on this state folder"
    states = (f"{worker['pid']} ({worker['state']} since {worker['since']})" for worker in members["workers"])
    workers = ", ".join(states)
    return f"running, process {members['daemon_pid']}{workers and f', workers {workers}'}"


def _describe_spool(spool: Mapping[str, int]) -> str:
    since = f" (the first for {spool['oldest_seconds']} s)" if spool["waiting"] else ""
    failed = spool["failed"]
    return f"messages that wait to be learned: {spool['waiting']}{since}; that could not be learned: {failed}"


def _describe_engine(in_force: str | None) -> str:
    engine = choose_engine()
    if in_force in {None, engine.name}:
        return str(engine)
    return f"{in_force} in the daemon, {engine} here: restart it, or see whether its {ENVIRONMENT} differs"


def _describe_thresholds(members: Mapping[str, Any]) -> str:
    """Return the thresholds in force and what is guaranteed of a budget, in words."""
    spam = members["spam_from"]
    called = "nothing is called spam" if spam is None else f"spam from {format_threshold(spam)}"
    text = f"unsure from {format_threshold(members['unsure_from'])}, {called}"
    if (reject := members["reject_from"]) is not None:
        text += f", refused from {format_threshold(reject)}"
    return f"{text}; {members['guarantee']}" if members["guarantee"] else text
