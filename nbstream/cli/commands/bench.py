"""``nbstream bench``: what a check and a lesson cost on this machine.

Rules: the model of the configuration is neither read nor changed. Everything is learned into a private Redis, on
the disk of the state folder if that is there, and its folder is removed at the end. The settings that a check
depends on (model, limits, verdict) are those of the configuration. SIGTERM, and SIGHUP of a terminal that is
closed, end it as Ctrl-C does, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream import config
from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.assembly.store import make_mirror, make_model, open_running_redis
from nbstream.cli import interrupts, message_files
from nbstream.cli.generated_mail import GeneratedMail, generate_mail
from nbstream.cli.terminal import print_note, report_errors
from nbstream.engine.choice import choose_engine
from nbstream.errors import InputError, StoreUnavailable
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.settings import RedisSettings

if TYPE_CHECKING:
    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings

_FEWEST_MESSAGES = 20
_LOAD_SECONDS = 60.0
_ROUNDS = 3  # of checks: of each message the median counts
_BUSY_SHARE = 0.5  # of a core in the busy hour: above 80 % mail waits long


def run(options: argparse.Namespace) -> int:
    """Print the costs; 66 when a path of ``--mail`` cannot be read (the rest is measured)."""
    settings = config.load_settings(config.find_config_file(options.config))
    errors: list[InputError] = []
    if options.messages < _FEWEST_MESSAGES:
        options.wrong_usage(f"--messages must be at least {_FEWEST_MESSAGES}")
    mail = _read_mail(options, errors)
    print_note("nothing of your model is read or changed: this measures with a private Redis, removed at the end")
    costs = interrupts.run_interruptible(_measure(settings, mail))
    print(json.dumps(costs, indent=2) if options.json else _describe(costs))
    return report_errors(errors)


def _read_mail(options: argparse.Namespace, errors: list[InputError]) -> Sequence[GeneratedMail]:
    """Return the messages; those of a user get the two labels in turn, which costs as much as the right ones."""
    if not options.mail:
        return list(generate_mail(options.messages, options.seed))
    sources = itertools.islice(message_files.read_messages(options.mail, errors), options.messages)
    mail = [GeneratedMail(("ham", "spam")[i % 2], source.raw) for i, source in enumerate(sources)]
    if len(mail) < _FEWEST_MESSAGES:
        raise (
            errors[0] if errors else InputError(f"{len(mail)} messages are too few: {_FEWEST_MESSAGES} are needed")
        )
    return mail


async def _measure(settings: Settings, mail: Sequence[GeneratedMail]) -> dict[str, Any]:
    """Return the costs in seconds: the first half of the mail is taught, the other one is checked."""
    interrupts.cancel_on(signal.SIGTERM, signal.SIGHUP)
    state_dir = settings.state_dir.expanduser()
    parent = state_dir if state_dir.is_dir() and os.access(state_dir, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="nbstream-bench-", dir=parent) as folder:
        private = settings.model_copy(
            update={"state_dir": Path(folder), "redis": RedisSettings(), "autolearn": None}
        )
        async with open_running_redis(private) as clients:
            lessons, checks = await _learn_and_check(private, clients, mail)
    half = len(mail) // 2
    return {
        "messages": len(mail),
        "mean_bytes": round(sum(len(message.raw) for message in mail) / len(mail)),
        "engine": choose_engine(settings.engine).name,
        "check": _summary(checks),
        "lesson": _summary(lessons),
        "taught": half,
    }


async def _learn_and_check(
    settings: Settings, clients: RedisClients, mail: Sequence[GeneratedMail]
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the seconds of each lesson until it is on disk, and the CPU seconds of each check."""
    reader, engine = make_message_reader(settings), choose_engine(settings.engine)
    model = make_model(settings, clients.client)
    await model.open()
    mirror = make_mirror(settings, clients, make_model(settings, clients.blocking_client), engine)
    following = asyncio.create_task(mirror.run())
    lessons, rounds = [], []
    try:
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                await mirror.loaded.wait()
        except TimeoutError as error:
            raise StoreUnavailable("the counts could not be loaded") from error
        spam_filter = make_filter(settings, model, mirror, engine=engine)
        half = len(mail) // 2
        for message in mail[:half]:
            started = time.perf_counter()
            await spam_filter.learn(reader.read_incoming(message.raw), message.label, "bench")
            lessons.append(time.perf_counter() - started)
        for _ in range(_ROUNDS):
            used = []
            for message in mail[half:]:
                started = time.process_time()
                await spam_filter.check(reader.read_incoming(message.raw))
                used.append(time.process_time() - started)
                await asyncio.sleep(0)
            rounds.append(used)
    finally:
        await cancel_and_wait(following)
    return lessons, np.median(np.array(rounds), axis=0).tolist()


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.quantile(seconds, [0.5, 0.99]).tolist()
    return {"mean": float(np.mean(seconds)), "p50": p50, "p99": p99}


def _describe(costs: dict[str, Any]) -> str:
    lines = [
        f"{costs['messages']:,} messages, in the mean of {costs['mean_bytes']:,} bytes; engine {costs['engine']}",
        "              mean ms    p50    p99   a second",
    ]
    for name, unit in (("check", "CPU, on one core"), ("lesson", "until it is on disk, one after another")):
        mean, p50, p99 = (costs[name][key] for key in ("mean", "p50", "p99"))
        lines.append(
            f"  a {name:7} {1e3 * mean:11.2f} {1e3 * p50:6.2f} {1e3 * p99:6.2f} {1 / mean:10,.0f}   {unit}"
        )
    day = 86_400 * _BUSY_SHARE / costs["check"]["mean"]
    lines.append(
        f"Half a core for checks alone is {day / 1e6:,.1f} million a day; listeners and Redis take theirs."
    )
    return "\n".join(lines)
