"""``nbstream status``: what the model knows and still needs, and whether the policy in the file is in force."""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import TYPE_CHECKING, Any

from nbstream import config
from nbstream.assembly import assembly
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.event_models import GaussianModel
from nbstream.cli import interrupts
from nbstream.errors import ConfigError
from nbstream.listeners import control_socket
from nbstream.policy.first_scores import FirstScores
from nbstream.policy.verdict import ModelState, Thresholds, format_threshold
from nbstream.store.embedded.locks import daemon_pid
from nbstream.store.model.time_base import utc_time
from nbstream.wire.explanation_json import iso_time

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.config import Settings
    from nbstream.store.model.model import Model


_ASK_SECONDS = 2.0


def run(options: argparse.Namespace) -> int:
    """Print the state of the model; ``StoreUnavailable`` (75) when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = _load_settings(options.config)
    pid = daemon_pid(settings.state_dir)
    digest, told = config.policy_hash(settings), _ask_daemon(settings) if pid else {}
    in_force, workers = told.get("policy"), told.get("workers") or []
    async with assembly.open_one_shot_filter(settings) as (_, model):
        sums, totals = await model.look_up(GaussianModel.sum_names)  # the largest that there are
        half_life = model.half_life
        auto = await assembly.make_autolearn_model(settings, model.client).totals()
        thresholds, others = await _read_thresholds(settings, model)
    left = half_life.half_lives_left(time.time(), max(*totals.tokens, int(sums.max())))
    state = ModelState(dict(zip(CLASSES, totals.messages, strict=True)), settings.model.min_learned.model_dump())
    if options.json:
        found = {
            "model": settings.model.name,
            "state": str(state),
            "learned": dict(state.learned),
            "needed": dict(state.needed),
            "tokens": totals.vocabulary_size,
            "half_life_days": half_life.days,
            "half_life_since": None if half_life.days is None else iso_time(half_life.since),
            "half_lives_left": None if left is None else round(left, 2),
            "autolearn": bool(settings.autolearn),
            "autolearned": dict(zip(CLASSES, auto.messages, strict=True)),
            "unsure_from": thresholds.unsure,
            "spam_from": _finite_or_none(thresholds.spam),
            "reject_from": _finite_or_none(thresholds.reject),
            "promise": thresholds.promise or None,
            "recipients": [
                {
                    "match": match,
                    "unsure_from": each.unsure,
                    "spam_from": _finite_or_none(each.spam),
                    "reject_from": _finite_or_none(each.reject),
                    "promise": each.promise or None,
                }
                for match, each in others.items()
            ],
            "redis": settings.redis.display_url,
            "daemon_pid": pid,
            "worker_pids": workers,
            "policy": digest,
            "policy_in_force": in_force,
            "config": str(settings.source) if settings.source else None,
        }
        print(json.dumps(found))
        return 0
    needed = ", ".join(f"{label} {state.learned[label]}/{count}" for label, count in state.needed.items())
    print(f"model    {settings.model.name}: {state} (learned/needed: {needed})")
    print(f"verdict  {_describe_thresholds(thresholds)}")
    for match, each in others.items():
        print(f"         {match}: {_describe_thresholds(each)}")
    print(f"tokens   {totals.vocabulary_size}")
    if left is not None:
        since = f"{half_life.days:g} days, t0 {utc_time(half_life.since)}"
        print(f"halving  {since}; export and import move it, in {left:.1f} half-lives at the latest")
    if settings.autolearn or any(auto.messages):
        known = ", ".join(f"{label} {count}" for label, count in zip(CLASSES, auto.messages, strict=True))
        print(f"auto     {'on' if settings.autolearn else 'off, not used'} (learned without people: {known})")
    print(f"redis    {settings.redis.display_url}")
    shared = f", workers {', '.join(map(str, workers))}" if workers else ""
    print(f"daemon   {f'running, process {pid}{shared}' if pid else 'not running on this state folder'}")
    print(f"state    {settings.state_dir}")
    print(f"config   {settings.source.absolute() if settings.source else 'defaults'}")
    stale = f", but {in_force} is in force: nbstream reload" if in_force not in {None, digest} else ""
    print(f"policy   {digest}{stale}")
    return 0


def _load_settings(file: Path | None) -> Settings:
    try:
        return config.load_settings(config.find_config_file(file))
    except ConfigError as error:
        kept = "a daemon that runs keeps the settings that it has read before"
        raise ConfigError(f"{error}\n{kept}; nothing else is known without the file") from error


async def _read_thresholds(settings: Settings, model: Model) -> tuple[Thresholds, dict[str, Thresholds]]:
    """Those in force, and those of the rules for recipients that have others, by their pattern."""
    rules = assembly.make_rules(settings)
    top = rules.default.policy
    policies = {rule.pattern.text: rule.treatment.policy for rule in rules.rules}
    budgets = any(policy.budget_rates for policy in (top, *policies.values()))
    first_scores = await model.first_scores() if budgets else FirstScores()
    others = {match: policy.thresholds(first_scores) for match, policy in policies.items() if policy != top}
    return top.thresholds(first_scores), others


def _finite_or_none(threshold: float | None) -> float | None:
    return threshold if threshold is not None and math.isfinite(threshold) else None


def _describe_thresholds(thresholds: Thresholds) -> str:
    """The thresholds in force, and what is promised."""
    told = f"unsure from {format_threshold(thresholds.unsure)}, spam from {format_threshold(thresholds.spam)}"
    if math.isinf(thresholds.spam):
        told = f"unsure from {format_threshold(thresholds.unsure)}, nothing is called spam"
    if (reject := _finite_or_none(thresholds.reject)) is not None:
        told += f", refused from {format_threshold(reject)}"
    return f"{told}; {thresholds.promise}" if thresholds.promise else told


def _ask_daemon(settings: Settings) -> dict[str, Any]:
    """What the running daemon says of itself: the policy that it goes by, its workers; empty where it does not."""
    try:
        return control_socket.ask_daemon(settings.state_dir, "policy", _ASK_SECONDS)
    except (OSError, ValueError):
        return {}
