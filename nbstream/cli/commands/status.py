"""``nbstream status``: what the model knows and still needs, and whether the policy in the file is in force.

Rules: everything is collected first and printed then, so that what cannot be asked leaves no half of an answer.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbstream.daemon import config
from nbstream.daemon.assembly.parts import make_correspondent_reader, open_one_shot_filter
from nbstream.daemon.assembly.policy import make_rules
from nbstream.daemon.status import SILENT, DaemonStatus, WorkerStatus, ask_daemon_status
from nbstream.engine.choice import ENVIRONMENT, choose_engine
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.evaluation.measures import finite_or_none
from nbstream.filter import learned_by_class
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.listeners.dovecot.spool import SpoolBacklog, measure_backlog
from nbstream.policy.autolearn import model_state
from nbstream.policy.thresholds import PrequentialScores
from nbstream.policy.verdict import Thresholds, format_threshold
from nbstream.server.api_json import iso_time

if TYPE_CHECKING:
    from nbstream.daemon.config import Settings
    from nbstream.engine.choice import Engine
    from nbstream.policy.verdict import ModelState
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages
    from nbstream.terminal import Output


_LOOKED_AT = 1000  # of the messages that were checked last
_SHOWN_IDS = 5


@dataclass(frozen=True, slots=True)
class RecentSummary:
    """Of the messages that were checked last, how many would be spam, were they not unlike learned spam.

    ``unlike_ids`` are the ids of the newest of these.
    """

    checked: int = 0
    unlike: int = 0
    unlike_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What the model in Redis has learned: messages by class, and tokens.

    ``autolearned`` counts the messages that were learned without people, and ``kinds`` those of each kind that is
    configured.
    """

    name: str
    state: ModelState
    vocabulary_size: int
    recent: RecentSummary
    autolearned: Mapping[str, int]
    kinds: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """All that the command prints, as it was at one moment.

    ``thresholds`` are the default ones, ``recipient_thresholds`` those of recipient rules that have others, by
    their pattern. ``policy_hash`` is that of the configuration ``config_file`` (None: of the defaults), which the
    daemon may not have applied. ``engine`` is the one that this configuration chooses.
    """

    model: ModelSummary
    own_models: int
    correspondents: int
    autolearn_enabled: bool
    thresholds: Thresholds
    recipient_thresholds: Mapping[str, Thresholds]
    daemon: DaemonStatus
    redis_url: str
    state_dir: Path
    spool: SpoolBacklog
    config_file: Path | None
    policy_hash: str
    engine: Engine

    @property
    def is_policy_stale(self) -> bool:
        """Whether a daemon runs that goes by another policy than the one in the file."""
        return self.daemon.policy_hash not in {None, self.policy_hash}


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print the state of the model; ``StoreUnavailable`` (75), which says what waits, when Redis is away."""
    settings = _load_settings(options.config)
    try:
        status = await collect_status(settings)
    except StoreUnavailable as error:
        spool = _measure_spool(settings.state_dir)
        if spool == SpoolBacklog():
            raise
        raise StoreUnavailable(f"{error}\nthe spool does not need Redis: {_describe_spool(spool)}") from error
    output.show(list(describe_status(status)), status_to_json(status))


def _load_settings(file: Path | None) -> Settings:
    try:
        return config.load_settings(config.find_config_file(file))
    except ConfigError as error:
        note = "a daemon that runs keeps the settings that it has read before"
        raise ConfigError(f"{error}\n{note}; nothing else is known without the file") from error


async def collect_status(settings: Settings) -> Status:
    """Ask Redis and the daemon; a daemon that does not answer is no error.

    Raises ``ConfigError``, ``StoreIncompatible`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    daemon = ask_daemon_status(settings.state_dir)
    async with open_one_shot_filter(settings) as (spam_filter, model):
        own_models = await OwnModelIndex(model.client, settings.model.name).count()
        store = make_correspondent_reader(settings, model.client)
        correspondents = await store.count() if store else 0
        model_status = await _collect_model_summary(settings, model, spam_filter.parts.checked_messages)
        thresholds, recipient_thresholds = await _read_thresholds(settings, model)
    return Status(
        model=model_status,
        own_models=own_models,
        correspondents=correspondents,
        autolearn_enabled=bool(settings.autolearn),
        thresholds=thresholds,
        recipient_thresholds=recipient_thresholds,
        daemon=daemon,
        redis_url=settings.redis.display_url,
        state_dir=settings.state_dir,
        spool=_measure_spool(settings.state_dir),
        config_file=settings.source,
        policy_hash=config.policy_hash(settings),
        engine=choose_engine(),
    )


def _measure_spool(state_dir: Path) -> SpoolBacklog:
    try:
        return measure_backlog(state_dir)
    except OSError as error:
        raise ConfigError(f"the spool in {state_dir} cannot be read: {error}") from error


async def _collect_model_summary(
    settings: Settings, model: Model, checked_messages: RecentMessages | None
) -> ModelSummary:
    people, automatic = await model.stored_totals()
    totals = people.by_label
    return ModelSummary(
        name=settings.model.name,
        state=model_state(totals, settings.model.messages_needed, automatic if settings.autolearn else None),
        vocabulary_size=totals.vocabulary_size,
        recent=await _collect_recent(checked_messages),
        autolearned=automatic.messages_by_label(),
        kinds=await _learned_kinds(settings, model),
    )


async def _collect_recent(checked_messages: RecentMessages | None) -> RecentSummary:
    if checked_messages is None:
        return RecentSummary()
    checked, unlike = 0, []
    async for message in checked_messages.newest(_LOOKED_AT):
        checked += 1
        if message.is_discounted:
            unlike.append(message.key)
    return RecentSummary(checked, len(unlike), tuple(unlike[:_SHOWN_IDS]))


async def _learned_kinds(settings: Settings, model: Model) -> dict[str, int]:
    """Return how many messages each kind that is configured has learned, without plain ham."""
    learned = await learned_by_class(model, settings.model.kinds)
    return {kind: learned[kind] for kind in settings.model.kinds[1:]}


async def _read_thresholds(settings: Settings, model: Model) -> tuple[Thresholds, dict[str, Thresholds]]:
    """Return the default thresholds, and by their pattern those of the recipient rules that have others."""
    rules = make_rules(settings)
    default = rules.default.policy
    policies = {rule.pattern.text: rule.treatment.policy for rule in rules.rules}
    budgets = any(policy.budget_rates for policy in (default, *policies.values()))
    prequential_scores = await model.prequential_scores() if budgets else PrequentialScores()
    others = {
        match: policy.thresholds(prequential_scores) for match, policy in policies.items() if policy != default
    }
    return default.thresholds(prequential_scores), others


def status_to_json(status: Status) -> dict[str, Any]:
    """Return the members of the JSON object; null is unknown, or a threshold that is never reached."""
    model = status.model
    return {
        "model": model.name,
        "state": str(model.state),
        "learned": dict(model.state.learned),
        "needed": dict(model.state.needed),
        **({"kinds": dict(model.kinds)} if model.kinds else {}),
        "tokens": model.vocabulary_size,
        "recent": {
            "checked": model.recent.checked,
            "unlike_learned_spam": model.recent.unlike,
            "unlike_ids": list(model.recent.unlike_ids),
        },
        "autolearn": status.autolearn_enabled,
        "autolearned": dict(model.autolearned),
        "implicit_ham": model.state.kept,
        "own_models": status.own_models,
        "correspondents": status.correspondents,
        **_thresholds_to_json(status.thresholds),
        "recipients": [
            {"match": match, **_thresholds_to_json(thresholds)}
            for match, thresholds in status.recipient_thresholds.items()
        ],
        "redis": status.redis_url,
        "spool": {
            "waiting": status.spool.waiting,
            "oldest_seconds": round(status.spool.oldest_seconds(time.time())),
            "failed": status.spool.failed,
        },
        "daemon_pid": status.daemon.pid,
        "workers": [
            {"pid": worker.pid, "state": worker.state, "since": iso_time(worker.since)}
            for worker in status.daemon.workers
        ],
        "engine": status.engine.name,
        "engine_in_force": status.daemon.engine,
        "policy": status.policy_hash,
        "policy_in_force": status.daemon.policy_hash,
        "config": str(status.config_file) if status.config_file else None,
    }


def _thresholds_to_json(thresholds: Thresholds) -> dict[str, Any]:
    return {
        "unsure_from": thresholds.unsure,
        "spam_from": finite_or_none(thresholds.spam),
        "reject_from": finite_or_none(thresholds.reject),
        "guarantee": thresholds.guarantee or None,
    }


def describe_status(status: Status) -> Iterator[str]:
    """Yield the lines of the text."""
    model = status.model
    needed = ", ".join(f"{label} {model.state.learned[label]}/{n}" for label, n in model.state.needed.items())
    yield f"model    {model.name}: {model.state} (learned/needed: {needed})"
    yield f"verdict  {_describe_thresholds(status.thresholds)}"
    for match, thresholds in status.recipient_thresholds.items():
        yield f"         {match}: {_describe_thresholds(thresholds)}"
    if model.kinds:
        yield f"kinds    {', '.join(f'{kind} {count}' for kind, count in model.kinds.items())}"
    yield f"tokens   {model.vocabulary_size}"
    if model.recent.unlike:
        share = 100 * model.recent.unlike / model.recent.checked
        yield (
            f"new      {model.recent.unlike} of the last {model.recent.checked} messages ({share:.0f} %) would be "
            "spam were they not unlike learned spam: teach some of them"
        )
        yield f"         nbstream explain {model.recent.unlike_ids[0]}"
    if status.own_models:
        yield f"own      {status.own_models} own models of users and domains; nbstream model list"
    if status.correspondents:
        yield f"known    whom users wrote to, by {status.correspondents} of their messages"
    if status.autolearn_enabled or any(model.autolearned.values()):
        counts = ", ".join(f"{label} {count}" for label, count in model.autolearned.items())
        use = "on" if status.autolearn_enabled else "off, not used"
        kept = "; the ham is implicit ham, until people teach ham" if model.state.kept else ""
        yield f"auto     {use} (learned without people: {counts}{kept}); nbstream forget --auto drops it"
    yield f"redis    {status.redis_url}"
    yield f"daemon   {_describe_daemon(status.daemon)}"
    yield f"engine   {_describe_engine(status)}"
    yield f"state    {status.state_dir}"
    if status.spool != SpoolBacklog():
        yield f"spool    {_describe_spool(status.spool)}"
    yield f"config   {status.config_file.absolute() if status.config_file else 'defaults'}"
    stale = f", but {status.daemon.policy_hash} is in force: nbstream reload" if status.is_policy_stale else ""
    yield f"policy   {status.policy_hash}{stale}"


def _describe_daemon(daemon: DaemonStatus) -> str:
    if daemon.pid is None:
        return "not running on this state folder"
    workers = ", ".join(map(_describe_worker, daemon.workers))
    return f"running, process {daemon.pid}{workers and f', workers {workers}'}"


def _describe_worker(worker: WorkerStatus) -> str:
    return f"{worker.pid} ({worker.state}{f' since {iso_time(worker.since)}' if worker.state != SILENT else ''})"


def _describe_spool(spool: SpoolBacklog) -> str:
    since = f" (the first for {spool.oldest_seconds(time.time()):.0f} s)" if spool.waiting else ""
    return f"messages that wait to be learned: {spool.waiting}{since}; that could not be learned: {spool.failed}"


def _describe_engine(status: Status) -> str:
    in_force = status.daemon.engine
    if in_force in {None, status.engine.name}:
        return str(status.engine)
    return f"{in_force} in the daemon, {status.engine} here: restart it, or see whether its {ENVIRONMENT} differs"


def _describe_thresholds(thresholds: Thresholds) -> str:
    """Return the thresholds in force and what is guaranteed of a budget, in words."""
    unsure = f"unsure from {format_threshold(thresholds.unsure)}"
    spam = f"spam from {format_threshold(thresholds.spam)}"
    text = f"{unsure}, {'nothing is called spam' if math.isinf(thresholds.spam) else spam}"
    if (reject := finite_or_none(thresholds.reject)) is not None:
        text += f", refused from {format_threshold(reject)}"
    return f"{text}; {thresholds.guarantee}" if thresholds.guarantee else text
