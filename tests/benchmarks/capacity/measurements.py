"""What was measured on one machine, and what follows from it: rates, latency, and how much one primary carries.

Rules: pure. Seconds are CPU seconds unless the name says otherwise. What is measured stands in ``Measurements``;
everything else is computed from it, so that the same measurements always give the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.benchmarks.capacity.queueing import LOADS, simulate_load

if TYPE_CHECKING:
    from tests.benchmarks.capacity.queueing import LoadPoint

PRIMARY_SHARE = 0.7
"""The share of a Redis core that is planned with: the rest is for bursts, saving and reconnects."""

FEEDBACK_SHARES = (0.001, 0.01, 0.1)
"""The shares of messages that people label for which the number of workers on one primary is reported."""

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class MailSample:
    """The mail that was measured with: the number of messages, and means of their bytes and distinct tokens."""

    messages: int
    mean_bytes: float
    mean_tokens: float


@dataclass(frozen=True, slots=True)
class CheckCosts:
    """The CPU seconds of a check: ``in_process`` of each message, ``worker`` the mean of a daemon's worker.

    The second one is everything that the process of a worker does for a message that comes through HTTP: the
    listener, metrics, the log, and remembering the message.
    """

    in_process: Sequence[float]
    worker: float

    @property
    def mean(self) -> float:
        """The mean CPU seconds of a check alone."""
        return float(np.mean(self.in_process))

    def quantile(self, share: float) -> float:
        """Return the CPU seconds that this share of the checks stays below."""
        return float(np.quantile(self.in_process, share))

    @property
    def service_seconds(self) -> Sequence[float]:
        """How long each message holds a worker: its check, and the same for all that comes beside it."""
        beside = max(0.0, self.worker - self.mean)
        return [seconds + beside for seconds in self.in_process]


@dataclass(frozen=True, slots=True)
class LessonCosts:
    """What a lesson costs: ``round_trips`` are seconds by the clock, from the message to the durable answer.

    ``redis`` is CPU seconds of Redis for a lesson, ``most_per_second`` how many Redis took from several writers
    at once, each synced to disk where it is the embedded one. The bytes are means: a change is what travels to
    each mirror, an entry what the ledger takes in the memory of Redis.
    """

    round_trips: Sequence[float]
    redis: float
    most_per_second: float
    change_bytes: float
    ledger_bytes: float

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the round trips stays below."""
        return float(np.quantile(self.round_trips, share))


@dataclass(frozen=True, slots=True)
class RememberedCosts:
    """What it costs Redis to remember a checked message: CPU seconds, and bytes of memory."""

    redis: float
    stored_bytes: float


@dataclass(frozen=True, slots=True)
class MirrorCosts:
    """What a change costs after its lesson, in CPU seconds.

    ``redis`` is that of Redis for each mirror, by the number of mirrors; ``worker`` that of each worker. ``idle``
    is that of Redis for each mirror in a second without a change.
    """

    redis: Mapping[int, float]
    worker: float
    idle: float

    @property
    def redis_per_mirror(self) -> float:
        """The CPU seconds of Redis for a change and one of many mirrors."""
        return self.redis[max(self.redis)]


@dataclass(frozen=True, slots=True)
class TokenMemory:
    """The bytes of a token: in the memory of a worker, and in that of Redis.

    ``is_shared`` says whether all workers have that memory in common.
    """

    worker: float
    redis: float
    is_shared: bool


@dataclass(frozen=True, slots=True)
class Measurements:
    """All that was measured; ``cpus`` is the number of CPUs that nbstream may use."""

    cpus: int
    mail: MailSample
    check: CheckCosts
    lesson: LessonCosts
    remembered: RememberedCosts
    mirrors: MirrorCosts
    tokens: TokenMemory

    def loads(self) -> Sequence[LoadPoint]:
        """Return what one worker sustains at each of ``LOADS``, by the simulation of its queue.

        Several workers on TCP have a queue each: together they do as many times as much, with the same latency.
        """
        return [simulate_load(self.check.service_seconds, load) for load in LOADS]

    @property
    def lessons_per_primary(self) -> float:
        """The lessons a second that one primary takes, without mirrors, at ``PRIMARY_SHARE`` of what it can do."""
        return PRIMARY_SHARE * self.lesson.most_per_second

    def mirrors_fed(self, lessons_per_second: float, messages_per_second: float = 0.0) -> int:
        """Return how many mirrors one primary feeds at these rates, within ``PRIMARY_SHARE`` of its core.

        The messages are those that are remembered on it; 0 where even the lessons are too many.
        """
        own = lessons_per_second * self.lesson.redis + messages_per_second * self.remembered.redis
        idle_share = math.exp(-lessons_per_second)  # of the seconds: lessons come as in a Poisson process
        each = lessons_per_second * self.mirrors.redis_per_mirror + idle_share * self.mirrors.idle
        return max(0, math.floor((PRIMARY_SHARE - own) / each))

    def workers_per_primary(self, feedback_share: float, load: float) -> int:
        """Return how many workers at this load share one model, if people label this share of their messages.

        Each worker brings messages to remember and lessons, and each lesson goes to all of them: n workers use
        n a + n^2 b of the primary's core, with the a and b of ``_primary_terms``.
        """
        linear, square = self._primary_terms(feedback_share, load)
        root = math.sqrt(linear * linear + 4 * square * PRIMARY_SHARE)
        return math.floor(2 * PRIMARY_SHARE / (linear + root))

    def primary_share(self, workers: int, feedback_share: float, load: float) -> float:
        """Return the share of the primary's core that this many workers of one model use."""
        linear, square = self._primary_terms(feedback_share, load)
        return workers * linear + workers * workers * square

    def models_needed(self, workers: int, feedback_share: float, load: float) -> int:
        """Return into how many models these workers and their mail are to be split.

        Each model has a primary of its own, which then needs at most ``PRIMARY_SHARE`` of a core.
        """
        linear, square = self._primary_terms(feedback_share, load)
        models = 1
        while workers / models * (linear + workers / models * square) > PRIMARY_SHARE and models < workers:
            models += 1
        return models

    def worker_rate(self, load: float) -> float:
        """Return the messages a second of one worker at this load."""
        return load / float(np.mean(self.check.service_seconds))

    def _primary_terms(self, feedback_share: float, load: float) -> tuple[float, float]:
        """Return a = rate (remember + share lesson) and b = rate share mirror, in CPU seconds a second."""
        rate = self.worker_rate(load)
        linear = rate * (self.remembered.redis + feedback_share * self.lesson.redis)
        return linear, rate * feedback_share * self.mirrors.redis_per_mirror
