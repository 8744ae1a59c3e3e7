"""The measurements of ``nbstream bench`` on a private Redis, which ends with them.

Rules: the model of the configuration is neither read nor changed. Everything is learned into a model of its own in
a private Redis, whose folder is removed at the end, however that comes, unless a signal kills the process. The
settings that a check depends on (model, limits, verdict, memory) are those of the configuration.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.assembly.filter import make_filter, tokenizer_options
from nbstream.assembly.policy import make_message_reader
from nbstream.assembly.store import make_counts, make_mirror, make_model, make_recent_messages, open_running_redis
from nbstream.config.settings import ListenersSettings
from nbstream.delivery.settings import QuarantineSettings, RelaySettings
from nbstream.engine.choice import choose_engine
from nbstream.filter import RememberingObserver
from nbstream.listeners.http.settings import HttpListenerSettings
from nbstream.policy.settings import FeedbackSettings
from nbstream.store.model.model import temporary_model
from nbstream.store.redis_errors import store_errors
from nbstream.store.settings import RedisSettings
from nbstream.tokens.native_tokenizer import make_tokenizer
from tests.benchmarks.capacity import measuring
from tests.benchmarks.capacity.http_checks import check_through_http
from tests.benchmarks.capacity.measured_daemon import measured_daemon
from tests.benchmarks.capacity.measurements import CheckCosts, MailSample, Measurements, MirrorCosts
from tests.benchmarks.capacity.redis_costs import server_name

if TYPE_CHECKING:
    from nbstream.assembly.store import RedisClients
    from nbstream.cli.generated_mail import GeneratedMail
    from nbstream.config import Settings
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.model import Model

STEPS = 7
"""How many steps ``measure_machine`` reports."""

_HTTP_CONNECTIONS = 4
_HTTP_ROUNDS = 2
_FAN_OUT_ROUNDS = 3
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class MachineMeasurements:
    """The measurements, the Redis that they were made with, and the folder that held its data."""

    measurements: Measurements
    redis: str
    folder: Path


async def measure_machine(
    settings: Settings, mail: Sequence[GeneratedMail], begin_step: Callable[[str], object]
) -> MachineMeasurements:
    """Measure with this mail: the first half is taught, the other one is checked.

    ``begin_step`` is called with the name of each step. Raises ``ConfigError``, ``StoreUnavailable``,
    ``CannotStart`` and ``CheckFailed``.
    """
    parent = _folder_on_same_disk(settings)
    begin_step("starting a private Redis")
    with tempfile.TemporaryDirectory(prefix="nbstream-bench-", dir=parent) as folder:
        private = private_settings(settings, Path(folder))
        ledger_seconds = settings.model.ledger_days * _DAY_SECONDS
        async with (
            open_running_redis(private) as clients,
            temporary_model(clients.client, "bench", ledger_seconds) as model,
        ):
            bench = _MachineBench(with_model_name(private, model.keys.model), clients, model, mail)
            measurements = await bench.measure(begin_step)
            redis = await server_name(clients.client)
        return MachineMeasurements(measurements, redis, Path(folder).parent)


def private_settings(settings: Settings, state_dir: Path) -> Settings:
    """Return settings that check as ``settings`` do, with a private Redis and one HTTP listener on loopback."""
    listeners = ListenersSettings(smtp=None, http=HttpListenerSettings(listen=TcpAddress("127.0.0.1", 0)))
    return settings.model_copy(
        update={
            "state_dir": state_dir,
            "redis": RedisSettings(),
            "listeners": listeners,
            "relay": RelaySettings(),
            "quarantine": QuarantineSettings(),
            "feedback": FeedbackSettings(),
            "model": settings.model.model_copy(update={"max_tokens": None}),
            "autolearn": None,
            "workers": 1,
        }
    )


def _folder_on_same_disk(settings: Settings) -> Path | None:
    """Return the state folder, whose disk decides how long a lesson takes; None (/tmp) where it cannot be used."""
    folder = settings.state_dir.expanduser()
    return folder if folder.is_dir() and os.access(folder, os.W_OK) else None


def with_model_name(settings: Settings, name: str) -> Settings:
    """Return the same settings with another model."""
    return settings.model_copy(update={"model": settings.model.model_copy(update={"name": name})})


class _MachineBench:
    """The measurements, which use one another's model: it is taught first."""

    def __init__(
        self, settings: Settings, clients: RedisClients, model: Model, mail: Sequence[GeneratedMail]
    ) -> None:
        half = len(mail) // 2
        self._settings = settings
        self._engine = choose_engine(settings.engine)
        self._clients = clients
        self._model = model
        self._taught = mail[:half]
        self._checked = [message.raw for message in mail[half:]]
        self._reader = make_message_reader(settings)

    async def measure(self, begin_step: Callable[[str], object]) -> Measurements:
        """Measure all of it."""
        begin_step("lessons, one after another")
        async with measuring.following(self._make_mirror()) as mirror:
            spam_filter = make_filter(self._settings, self._model, mirror, engine=self._engine)
            taught = await measuring.teach_mail(spam_filter, self._model, self._taught, self._reader)
            begin_step("checks in process")
            check_seconds = await measuring.measure_checks(spam_filter, self._checked, self._reader)
            begin_step("remembering")
            memory = make_recent_messages(self._settings, self._model)
            observer = RememberingObserver(memory.remember)
            watched = make_filter(self._settings, self._model, mirror, observer, engine=self._engine)
            remembered = await measuring.measure_remembering(
                watched, memory, self._model, self._checked, self._reader
            )
        begin_step("checks through HTTP")
        worker_seconds = await self._measure_worker()
        begin_step("lessons at once")
        alone = await measuring.commit_copies(self._model, taught, "-alone")
        async with measuring.following(self._make_mirror()) as mirror:
            followed = await measuring.commit_copies(self._model, taught, "-followed", mirror)
        begin_step("mirrors and memory")
        with store_errors():  # the disk is no part of what follows, and each change would wait for it
            await self._clients.client.config_set("appendfsync", "everysec")
        fan_out, idle = await self._measure_mirrors()
        return Measurements(
            cpus=len(os.sched_getaffinity(0)),
            mail=self._describe_mail(),
            check=CheckCosts(check_seconds, worker_seconds),
            lesson=await measuring.lesson_costs(self._model, taught, alone),
            remembered=remembered,
            mirrors=MirrorCosts(fan_out, max(0.0, followed.process - alone.process), idle),
            tokens=await measuring.token_memory(self._model, make_counts(self._engine)),
        )

    def _make_mirror(self) -> Mirror:
        model = make_model(self._settings, self._clients.blocking_client)
        return make_mirror(self._settings, self._clients, model, self._engine)

    async def _measure_worker(self) -> float:
        async with measured_daemon(self._settings) as daemon:
            await check_through_http(daemon.host, daemon.port, self._checked, _HTTP_CONNECTIONS)  # warms it up
            before = await daemon.cpu_seconds()
            for _ in range(_HTTP_ROUNDS):
                await check_through_http(daemon.host, daemon.port, self._checked, _HTTP_CONNECTIONS)
            return (await daemon.cpu_seconds() - before) / (_HTTP_ROUNDS * len(self._checked))

    async def _measure_mirrors(self) -> tuple[dict[int, float], float]:
        """Return Redis's CPU seconds for a change and each mirror, by their number, and for an idle second."""
        changes = await measuring.recent_changes(self._model)
        stream = f"{self._model.keys.changes}:bench"
        writer, readers = self._clients.client, self._clients.blocking_client
        costs: dict[int, list[float]] = {number: [] for number in measuring.MIRROR_NUMBERS}
        for _ in range(_FAN_OUT_ROUNDS):
            without = await measuring.measure_fan_out(writer, readers, stream, changes, 0)
            for number, values in costs.items():
                used = await measuring.measure_fan_out(writer, readers, stream, changes, number)
                values.append((used - without) / number)
        idle = await measuring.measure_idle_mirrors(
            make_model(self._settings, readers), max(measuring.MIRROR_NUMBERS) - 1
        )
        return {number: max(0.0, median(values)) for number, values in costs.items()}, idle

    def _describe_mail(self) -> MailSample:
        tokenizer = make_tokenizer(tokenizer_options(self._settings), self._engine.native_library)
        tokens = [len(tokenizer.tokenize(self._reader.read_incoming(raw)).all) for raw in self._checked]
        sizes = [len(raw) for raw in self._checked]
        return MailSample(
            len(self._checked) + len(self._taught), sum(sizes) / len(sizes), sum(tokens) / len(tokens)
        )
