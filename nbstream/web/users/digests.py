"""The digests: each user gets a list of what was quarantined since the last one, through the next hop.

Rules: a digest goes only to an address that the settings name, to which quarantined mail was addressed, and whose
user has not switched it off; and only where something is new. It is neither checked nor quarantined. A user is
noted as served after the next hop's 250: what ends a run in between sends one user a second digest at most, and
costs nobody theirs. What came within the last minute is in the next digest, since its file may still be on its way
to the disk. The least certain messages come first, since among them is what a user looks for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from prometheus_client import Counter as MetricCounter

from nbstream.delivery.next_hop import SmtpPath
from nbstream.delivery.quarantine import Quarantine
from nbstream.errors import InputError, RelayRefused, RelayUnavailable
from nbstream.logs import event_fields
from nbstream.web.quarantine import mails_of, read_row
from nbstream.web.users.digest_mail import Digest, DigestRenderer
from nbstream.web.users.digest_state import DigestMarker, DigestState
from nbstream.web.users.links import LinkSigner

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.delivery.next_hop import NextHop
    from nbstream.metrics import MetricsRegistry
    from nbstream.web.quarantine import UserOf
    from nbstream.web.users.links import LinkKeys
    from nbstream.web.users.preferences import UserPreferences
    from nbstream.web.users.settings import DigestSettings

MAX_LISTED = 100
"""The most messages that a digest lists."""

_HOUR = 7  # of the day, when digests are sent
_SETTLE_SECONDS = 60.0
_RETRY_SECONDS = 300.0
_DAY_SECONDS = 86_400
_NO_KEY = LinkSigner(b"")

_log = logging.getLogger(__name__)


class DigestOutcome(StrEnum):
    """What became of one digest."""

    SENT = "sent"
    REFUSED = "refused"
    """The next hop refused it for good; the next digest tells of the same messages."""
    DEFERRED = "deferred"
    """The next hop could not take it now, and it is tried again."""


@dataclass(eq=False, kw_only=True, slots=True)
class Digests:
    """The digests of the quarantine in ``folder``; ``count`` gets the outcome of each.

    ``user_of`` may change: each run looks anew whose the mail is, by the rules of now.
    """

    section: DigestSettings
    folder: Path
    user_of: UserOf
    kept_days: int | None
    state: DigestState
    renderer: DigestRenderer
    preferences: UserPreferences
    link_keys: LinkKeys
    next_hop: NextHop
    count: Callable[[DigestOutcome], object] = lambda _: None
    _again_at: float = field(default=0.0, init=False)

    async def step(self, now: float) -> None:
        """Send what is due; what the next hop put off is tried again after five minutes.

        Raises ``InputError`` or ``StoreUnavailable``.
        """
        if now >= self._again_at and not await self.send_due(now):
            self._again_at = now + _RETRY_SECONDS

    async def send_due(self, now: float) -> bool:
        """Send the digests that are due; return whether none has to be tried again.

        Where digests were never sent, the first ones are those of the next due time. Raises ``InputError`` or
        ``StoreUnavailable``.
        """
        state, due = self.state, last_due(now)
        done = await asyncio.to_thread(state.last_done)
        if done is not None and due <= done:
            return True
        with state.locked():
            if done is not None:
                outcomes = await self._send_all(now, due)
                if outcomes[DigestOutcome.DEFERRED]:
                    return False
            await asyncio.to_thread(state.set_last_done, due)
        return True

    async def send_now(self, now: float, address: str | None = None) -> Mapping[DigestOutcome, int]:
        """Send all digests that have something new, or that of the user with ``address`` (normalized).

        Return how many there were of each outcome. Raises ``InputError`` or ``StoreUnavailable``.
        """
        with self.state.locked():
            return await self._send_all(now, None, address)

    async def preview(self, now: float, address: str) -> bytes | None:
        """Return the next digest of a user, None where nothing is new; its links are inactive.

        Raises ``InputError``.
        """
        marker = await asyncio.to_thread(self.state.marker, address)
        digest = await asyncio.to_thread(self._make_digest, self._open(), address, marker.until, now)
        return self.renderer.mail(digest, _NO_KEY, now) if digest else None

    async def _send_all(self, now: float, due: float | None, only: str | None = None) -> Counter[DigestOutcome]:
        outcomes = Counter[DigestOutcome]()
        if self.kept_days is not None:  # then all that waits is new, with a marker or without
            await asyncio.to_thread(self.state.remove_older, now - _DAY_SECONDS * (self.kept_days + 1))
        waiting = self._open()
        users = [only] if only else await asyncio.to_thread(waiting.users)
        signer = await self.link_keys.signer()
        for address in await self.preferences.want_digest(sorted(filter(self.section.is_recipient, users))):
            marker = await asyncio.to_thread(self.state.marker, address)
            if due is not None and marker.due >= due:
                continue
            digest = await asyncio.to_thread(self._make_digest, waiting, address, marker.until, now)
            if digest is None:
                continue
            try:
                outcome = await self._send(digest, signer, now)
            except RelayUnavailable as error:  # the others would fail in the same way
                _log.warning("digest: the next hop accepts no mail: %s", error)
                self._note(outcomes, DigestOutcome.DEFERRED)
                break
            if outcome is not DigestOutcome.DEFERRED:
                until = now - _SETTLE_SECONDS if outcome is DigestOutcome.SENT else marker.until
                served = DigestMarker(until, marker.due if due is None else due)
                await asyncio.to_thread(self.state.set_marker, address, served)
            self._note(outcomes, outcome)
        if outcomes:
            counts = {str(outcome): outcomes[outcome] for outcome in DigestOutcome}
            _log.info("digests of quarantined mail", extra=event_fields(**counts))
        return outcomes

    def _note(self, outcomes: Counter[DigestOutcome], outcome: DigestOutcome) -> None:
        outcomes[outcome] += 1
        self.count(outcome)

    def _open(self) -> Quarantine:
        return Quarantine(self.folder, user_of=self.user_of)

    def _make_digest(self, waiting: Quarantine, address: str, until: float, now: float) -> Digest | None:
        """Return the digest of what came after ``until``; None where that is nothing. It opens the new files.

        Raises ``InputError``.
        """
        if not self.section.is_recipient(address):
            return None
        mails = mails_of(map(waiting.message_at, sorted(waiting.files_for(address)))).values()
        settled = [mail for mail in mails if mail.at <= now - _SETTLE_SECONDS]
        new = [mail for mail in settled if mail.at > until]
        found = [(row.note, row) for row in map(read_row, new) if row.note]  # others were released just now
        found.sort(key=lambda each: (each[0].by_list, each[0].probability, -each[1].mail.at))
        if not found:
            return None
        rows = [row for _, row in found[:MAX_LISTED]]
        return Digest(address, rows, len(found) - len(rows), len(settled) - len(new))

    async def _send(self, digest: Digest, signer: LinkSigner, now: float) -> DigestOutcome:
        """Hand one digest to the next hop. Raises ``RelayUnavailable``."""
        try:
            content = await asyncio.to_thread(self.renderer.mail, digest, signer, now)
            await _hand_over(self.next_hop, digest.address, content)
        except RelayRefused as error:
            _log.warning("digest: refused: %s", error, extra=event_fields(recipient=digest.address))
            return DigestOutcome.DEFERRED if error.temporary else DigestOutcome.REFUSED
        except InputError as error:
            _log.warning("digest: not sent: %s", error, extra=event_fields(recipient=digest.address))
            return DigestOutcome.REFUSED
        return DigestOutcome.SENT


async def _hand_over(next_hop: NextHop, recipient: str, content: bytes) -> None:
    """Deliver ``content`` with the null sender. Raises ``RelayRefused`` or ``RelayUnavailable``."""
    transaction = await next_hop.begin(SmtpPath("", () if recipient.isascii() else ("SMTPUTF8",)))
    try:
        reply = await transaction.rcpt(SmtpPath(recipient))
        if reply.accepted:
            reply = (await transaction.data(content)).single
            if reply.accepted:
                return
        else:
            await transaction.abort()
    except BaseException:
        await transaction.abort()
        raise
    raise RelayRefused(reply.code, reply.text)


def last_due(now: float) -> float:
    """Return the last time until ``now`` at which digests were due, 7 o'clock on this machine, since 1970."""
    today = time.localtime(now)
    due = _morning(today, 0)
    return due if due <= now else _morning(today, 1)


def _morning(today: time.struct_time, days_back: int) -> float:
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday - days_back, _HOUR, 0, 0, 0, 0, -1))


class DigestMetrics:
    """Counts digests by what became of them, where ``digest`` is configured. Names are a contract."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._digests = MetricCounter(
            "nbstream_digests",
            "Digests of quarantined mail, by outcome: sent, refused (permanently, by the next hop), deferred "
            "(will be retried). Only with digest.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in DigestOutcome:
            self._digests.labels(outcome)

    def count(self, outcome: DigestOutcome) -> None:
        """Count a digest."""
        self._digests.labels(outcome).inc()
