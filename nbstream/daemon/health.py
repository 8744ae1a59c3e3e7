"""Whether this process can score mail and pass it on, and what is degraded.

Rules: each way to be degraded is a kind of finding, defined here and nowhere else. ``/readyz`` says its sentence
by the name of the part, and the page shows the remedy too. The sentences name no hosts and
no paths, since nobody needs a right to ask for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.errors import StoreNotPrimary
from nbstream.findings import note, problem
from nbstream.server.http.listener import HealthStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.daemon.server_parts import ServerParts
    from nbstream.findings import Finding

NOT_FOLLOWED = problem(
    "daemon.redis",
    "Redis is degraded: not followed, counts are {seconds:.0f} s old; feedback is deferred.",
    "Start Redis, or look for its error in the daemon's log. Until then mail is scored from memory.",
)
NOT_LOADED = problem(
    "daemon.redis",
    "Redis is degraded: not followed, no counts are loaded; feedback is deferred.",
    "Start Redis, or look for its error in the daemon's log. Until then no mail can be scored.",
)
ONLY_REPLICA = problem(
    "daemon.redis",
    "Redis is degraded: only a replica is reachable; feedback is deferred.",
    "Wait until the failover is over. If there is none, set redis.url to the primary, or list the Sentinels in "
    "redis.sentinels.",
)
WRITES_REFUSED = problem(
    "daemon.redis",
    "Redis is degraded: writes are refused; feedback is deferred.",
    "Free memory or disk space for Redis (maxmemory), or start its missing replicas; see the daemon's log for "
    "Redis's error.",
)
NEXT_HOP_AWAY = problem(
    "daemon.next_hop",
    "The next hop is degraded: {problem}.",
    "Start the server in relay.next_hop, correct relay.tls and the login, or free disk space for the Maildir. "
    "Until then mail is deferred.",
)
QUARANTINE_AWAY = problem(
    "daemon.quarantine",
    "The quarantine is degraded: {problem}.",
    "Free space on its file system, or repair it. Until then mail for the quarantine is deferred; all other mail "
    "is delivered.",
)
BACKGROUND_FAILED = problem(
    "daemon.background",
    "The background work is degraded: {names} failed and will be retried.",
    "Look for the error in the daemon's log; mail is not affected.",
)
DRAINING = note(
    "daemon.smtp", "The daemon is degraded: draining.", "No action is needed during a stop or restart."
)

_IS_DEGRADED = " is degraded: "


class HealthCheck:
    """Looks what is degraded; ``is_draining`` says whether mail is taken no more."""

    def __init__(self, parts: ServerParts, is_draining: Callable[[], bool]) -> None:
        self._parts = parts
        self._is_draining = is_draining

    async def status(self) -> HealthStatus:
        """Return what ``/readyz`` says. The next hop may be asked; see ``NextHop.problem``."""
        findings = (*self.redis_findings(), *await self.other_findings())
        takes_mail = not any(finding.check in {NEXT_HOP_AWAY.check, DRAINING.check} for finding in findings)
        sentences = {_part(finding.check): _short_sentence(finding.what) for finding in findings}
        return HealthStatus(takes_mail and self._parts.counts.totals is not None, sentences)

    async def other_findings(self) -> Sequence[Finding]:
        """Return what is degraded but the use of Redis. The next hop may be asked; see ``NextHop.problem``."""
        parts, findings = self._parts, []
        next_hop_problem = await parts.next_hop.problem()
        if next_hop_problem:
            findings.append(NEXT_HOP_AWAY(problem=next_hop_problem))
        quarantine_problem = await parts.quarantine.problem()
        if quarantine_problem:  # all other mail still goes its way
            findings.append(QUARANTINE_AWAY(problem=quarantine_problem))
        if parts.background.failing:
            findings.append(BACKGROUND_FAILED(names=", ".join(parts.background.failing)))
        if self._is_draining():
            findings.append(DRAINING())
        return findings

    def redis_findings(self) -> Sequence[Finding]:
        """Return what is degraded in the use of Redis, without asking it."""
        counts = self._parts.counts
        if not counts.is_current:
            return [NOT_LOADED() if counts.totals is None else NOT_FOLLOWED(seconds=counts.lag_seconds)]
        if self._parts.clients.primary.is_replica:
            return [ONLY_REPLICA()]
        return [WRITES_REFUSED()] if self._writes_are_refused() else []

    def _writes_are_refused(self) -> bool:
        refusal = self._parts.model.last_refusal
        # Whether the server is the primary by now is known without a lesson.
        return refusal is not None and not isinstance(refusal, StoreNotPrimary)


def _part(check: str) -> str:
    return check.partition(".")[2]


def _short_sentence(what: str) -> str:
    return what.partition(_IS_DEGRADED)[2].removesuffix(".")
