"""Prometheus metrics: the observer that the filter and the doors are handed. Names are a contract."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from nbstream import __version__
from nbstream.metrics.calibration import FirstScoreCollector
from nbstream.metrics.model import AutolearnCollector, ModelCollector, PolicyCollector
from nbstream.policy.actions import ActionKind
from nbstream.policy.bursts import WINDOW_SECONDS, BurstDetector, BurstKind
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.filter import Check, FilterPolicy, Lesson
    from nbstream.store.replica.mirror import Mirror
    from nbstream.tokens.tokenizer import Tokens

_log = logging.getLogger(__name__)

_STAGE_BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
_RELAY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
_PROBABILITY_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class Metrics:
    """Counts what happens; one per process.

    ``registry`` has what is counted, ``state`` what is read at each scrape. ``shared`` is the folder in which
    several processes count together, where they do (``metrics.multiprocess``): each then tells the sums of all.
    """

    def __init__(self, shared: Path | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        self._exported_registry = registry
        if shared is not None:
            self._exported_registry = CollectorRegistry()
            self._exported_registry.register(_MultiprocessCollector(shared, registry))
        self.state_registry = CollectorRegistry()
        self._policy = PolicyCollector()
        self.state_registry.register(self._policy)
        self._messages = Counter(
            "nbstream_messages",
            "Messages checked and answered, by listener and verdict; the verdict is none where the check failed.",
            ["listener", "verdict"],
            registry=registry,
        )
        self._connections = Counter(
            "nbstream_connections",
            "Connections by listener and outcome: accepted, or refused (the listener is full, or closes). The "
            "metrics listener is left out.",
            ["listener", "outcome"],
            registry=registry,
        )
        self._actions = Counter(
            "nbstream_actions",
            "Decisions about messages by action; a message to recipients with different actions counts for each "
            "of them.",
            ["action"],
            registry=registry,
        )
        self._quarantined = Gauge(
            "nbstream_quarantine_messages",
            "Messages in the quarantine, counted once a minute.",
            registry=registry,
            multiprocess_mode="mostrecent",  # one process counts, and what it found outlives it
        )
        self._expired = Counter(
            "nbstream_quarantine_expired",
            "Messages removed from the quarantine after quarantine.days.",
            registry=registry,
        )
        self._check_seconds = Histogram(
            "nbstream_check_seconds",
            "Seconds of each stage of a check: wait (behind other checks, or for a thread), parse, tokenize, "
            "score.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        self._relay_seconds = Histogram(
            "nbstream_relay_seconds",
            "Seconds from the start of DATA to the reply of the next hop.",
            buckets=_RELAY_BUCKETS,
            registry=registry,
        )
        self._relay_replies = Counter(
            "nbstream_relay_replies",
            "Replies of the next hop to messages, by code; none where it went away.",
            ["code"],
            registry=registry,
        )
        self._feedback = Counter(
            "nbstream_feedback",
            "Messages sent as feedback, by source, label and outcome: learned, relearned, already, unlearned, "
            "unknown, refused, failed.",
            ["source", "label", "outcome"],
            registry=registry,
        )
        self._disagreement = Counter(
            "nbstream_feedback_disagreement",
            "Feedback whose label was not the verdict before it was learned.",
            ["verdict", "label"],
            registry=registry,
        )
        self._bursts_logged = Counter(
            "nbstream_feedback_bursts",
            "Bursts of feedback from one actor, by kind: contradicting, one_sided.",
            ["kind"],
            registry=registry,
        )
        self._probability = Histogram(
            "nbstream_score_probability",
            "P(spam) of checked messages.",
            buckets=_PROBABILITY_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "nbstream_filter_failures",
            "Checks that failed, by reason: store (no counts are loaded), error (a fault).",
            ["reason"],
            registry=registry,
        )
        self._memory_dropped = Counter(
            "nbstream_memory_dropped",
            "Checked messages that are not remembered: Redis was away or too slow.",
            registry=registry,
        )
        self._store_refusals = Counter(
            "nbstream_redis_refused",
            "Feedback that Redis refused to write: out of memory, or its disk is full.",
            registry=registry,
        )
        self._evicted = Counter(
            "nbstream_tokens_evicted", "Tokens forgotten to stay within model.max_tokens.", registry=registry
        )
        self._autolearned = Counter(
            "nbstream_autolearn",
            "Messages that a check was sure of, by label and outcome: learned, already, unbalanced, human (a "
            "person labelled it), unsure (the model that people taught is less sure), dropped, failed. Only with "
            "autolearn.",
            ["label", "outcome"],
            registry=registry,
        )
        self._reloads = Counter(
            "nbstream_config_reloads",
            "Reloads of the configuration, by outcome: applied, refused.",
            ["outcome"],
            registry=registry,
        )
        self._restarts = Counter(
            "nbstream_worker_restarts",
            "Workers that ended without a SIGTERM, and were replaced.",
            registry=registry,
        )
        for outcome in ("applied", "refused"):
            self._reloads.labels(outcome)
        build = Gauge(
            "nbstream_build_info",
            "The running version; always 1.",
            ["version", "python"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        build.labels(__version__, platform.python_version()).set(1)
        for reason in ("store", "error"):
            self._failures.labels(reason)
        for action in ActionKind:
            self._actions.labels(str(action))
        for kind in BurstKind:
            self._bursts_logged.labels(str(kind))
        self._bursts = BurstDetector()
        # To find a child by its labels takes longer than to count: each is found once.
        self._stage_seconds = cache(self._check_seconds.labels)
        self._of_verdict = cache(self._messages.labels)
        self._of_action = cache(self._actions.labels)
        self._of_code = cache(self._relay_replies.labels)

    def watch_model(self, mirror: Mirror, params: Callable[[], FilterPolicy]) -> None:
        """Export the state of the model and of the policies in force, read at each scrape."""
        self.state_registry.register(ModelCollector(mirror, params))
        self.state_registry.register(FirstScoreCollector(mirror, params))

    def watch_autolearned(self, mirror: Mirror) -> None:
        """Export the state of the layer that is learned without people, read at each scrape."""
        self.state_registry.register(AutolearnCollector(mirror))

    def render(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return self.counts_text() + self.state_text()

    async def render_for_listener(self) -> bytes:
        """The same, for a door."""
        return self.render()

    def counts_text(self) -> bytes:
        """What is counted, of all processes."""
        return generate_latest(self._exported_registry)

    def state_text(self) -> bytes:
        """What is read at each scrape: of the model it is the same in each process."""
        return generate_latest(self.state_registry)

    def verdicts(self) -> Mapping[str, int]:
        """The messages checked since the start, by verdict, of all doors and processes."""
        found: dict[str, int] = {}
        for family in self._exported_registry.collect():
            for sample in family.samples:
                if sample.name == "nbstream_messages_total":
                    verdict = sample.labels["verdict"]
                    found[verdict] = found.get(verdict, 0) + int(sample.value)
        return found

    # nbstream.daemon.supervisor.Supervisor

    def worker_died(self) -> None:
        """A worker ended that was not told to."""
        self._restarts.inc()

    # nbstream.daemon.reloader.ReloadObserver, and the policy that is in force

    def reloaded(self, applied: bool) -> None:
        """The configuration was read anew: applied, or refused."""
        self._reloads.labels("applied" if applied else "refused").inc()

    def set_policy(self, policy_hash: str, since: float | None = None) -> None:
        """The policy of this hash is in force ``since`` then (Unix time), by default from now on."""
        self._policy.in_force = (policy_hash, time.time() if since is None else since)

    # nbstream.filter.FilterObserver

    def checked(self, check: Check, tokens: Tokens, stages: Mapping[str, float]) -> None:
        """One message was checked; seconds by stage."""
        for stage, seconds in stages.items():
            self._stage_seconds(stage).observe(seconds)
        self._probability.observe(check.probability)

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """One message's feedback was taken, or changed nothing."""
        self._feedback.labels(source, lesson.label or "none", str(lesson.outcome)).inc()
        if lesson.outcome not in {"learned", "relearned"} or lesson.label is None:
            return
        if _disagrees(lesson.before.verdict, lesson.label):
            self._disagreement.labels(str(lesson.before.verdict), lesson.label).inc()
        if not lesson.before.state.is_learning:
            self._log_burst(lesson.before, lesson.label, source, actor)

    def feedback_failed(self, label: str | None, source: str) -> None:
        """One message's feedback could not be stored."""
        self._feedback.labels(source, label or "none", "failed").inc()

    def _log_burst(self, before: Check, label: str, source: str, actor: str) -> None:
        """Tell of a burst once, in its first moment."""
        begun = self._bursts.add_lesson(
            time.monotonic(), (source, actor), label, before.verdict, before.probability
        )
        for kind in begun:
            self._bursts_logged.labels(str(kind)).inc()
            fields = {"kind": str(kind), "source": source, "actor": actor, "label": label}
            minutes = round(WINDOW_SECONDS / 60)
            _log.warning("feedback burst: look at nbstream history --since %dm", minutes, extra={"fields": fields})

    def store_refused(self) -> None:
        """Redis refused to write one message's feedback."""
        self._store_refusals.inc()

    # nbstream.filter.Autolearner

    def autolearned(self, label: str, outcome: str) -> None:
        """A check was sure that one message is ``label``, and that came of it."""
        self._autolearned.labels(label, outcome).inc()

    # nbstream.store.replica.eviction.Evictor

    def evicted(self, tokens: int) -> None:
        """So many tokens were forgotten."""
        self._evicted.inc(tokens)

    # nbstream.listeners.smtp.delivery.DeliveryObserver and the feedback door's refusals

    def feedback_refused(self, label: str, source: str) -> None:
        """Feedback from a peer that is not believed."""
        self._feedback.labels(source, label, "refused").inc()

    def listener_opened(self, listener: str) -> None:
        """A door is open: nobody was turned away yet, since an increase is of two scrapes."""
        for outcome in ("accepted", "refused"):
            self._connections.labels(listener, outcome)

    def connected(self, listener: str, accepted: bool) -> None:
        """A client connected to a door that had room for it, or turned it away."""
        self._connections.labels(listener, "accepted" if accepted else "refused").inc()

    def delivered(self, listener: str, verdict: str) -> None:
        """One message was checked and answered."""
        self._of_verdict(listener, verdict).inc()

    def action_taken(self, action: str) -> None:
        """This was decided for some recipients of a message."""
        self._of_action(action).inc()

    def filter_failed(self, reason: str) -> None:
        """One check failed."""
        self._failures.labels(reason).inc()

    def relayed(self, code: str, seconds: float) -> None:
        """The next hop answered a message."""
        self._relay_seconds.observe(seconds)
        self._of_code(code).inc()

    # nbstream.relay.quarantine_retention.QuarantineRetention

    def quarantine_swept(self, held: int, removed: int) -> None:
        """So many messages are in the quarantine, after so many were removed for their age."""
        self._quarantined.set(held)
        self._expired.inc(removed)

    # nbstream.store.recent.checked_messages.RecentMessages

    def not_remembered(self, count: int) -> None:
        """So many checked messages were dropped instead of remembered."""
        self._memory_dropped.inc(count)


class _MultiprocessCollector(Collector):
    """What all processes that share a folder count, and as of one process the names of what was never counted."""

    def __init__(self, folder: Path, own: CollectorRegistry) -> None:
        self._folder = folder
        self._own_registry = own

    def collect(self) -> Iterator[Metric]:
        """The sums as they are now."""
        # Not the library's collect, nor its mark_process_dead: to these a folder's name is a pattern.
        files = list(map(str, self._folder.glob("*.db")))
        sums = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        found = {family.name: family for family in sums}
        for family in self._own_registry.collect():
            yield found.pop(family.name, None) or Metric(family.name, family.documentation, family.type)
        yield from found.values()


def _disagrees(verdict: Verdict, label: str | None) -> bool:
    return verdict is Verdict.UNSURE or verdict.is_spam != (label == "spam")
