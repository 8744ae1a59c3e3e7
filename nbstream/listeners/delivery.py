"""What happens to a complete message: check it, put the verdict on its header, hand it to the next hop.

Rules: a check that fails never costs mail, ``on_filter_failure`` decides; a relay that fails is the hop's own
answer or 451, and the client keeps the message. Verdict fields that came from outside are always removed.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import CheckFailed, NbstreamError, RelayUnavailable, Reply
from nbstream.mail import headers
from nbstream.mail.message import Message
from nbstream.policy import header
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.filter import Check, Filter
    from nbstream.mail.mime import Limits
    from nbstream.relay.next_hop import Transaction

_log = logging.getLogger(__name__)

_MAX_RECEIVED = (
    50  # RFC 5321 6.3 asks for at least 100 hops; mail that loops through here twice a round stops sooner
)
_RECEIVED = re.compile(rb"(?im)^received[ \t]*:")
_REFUSED = Reply(550, "5.7.1 Message refused as spam")
_LOOP = Reply(554, "5.4.6 Too many hops: this message has more than 50 Received fields")


class DeliveryObserver(Protocol):
    """What deliveries report; metrics are one of the readers."""

    def delivered(self, listener: str, verdict: str) -> None:
        """One message was checked and answered; the verdict is "none" where the check failed."""

    def filter_failed(self, reason: str) -> None:
        """One check failed."""

    def relayed(self, code: str, seconds: float) -> None:
        """The next hop answered a message with this code ("none" where it went away before)."""


@dataclass(frozen=True, slots=True)
class Params:
    """``pass_on_failure``: a message whose check failed passes unmarked; else it is deferred with 451."""

    model: str
    limits: Limits
    pass_on_failure: bool = True


@dataclass(frozen=True, slots=True)
class Delivered:
    """The answer to the client, and the check where there was one."""

    reply: Reply
    check: Check | None = None


class Delivery:
    """Takes complete messages from a door to the next hop."""

    def __init__(self, spam_filter: Filter, params: Params, observer: DeliveryObserver) -> None:
        self._filter = spam_filter
        self._params = params
        self._observer = observer

    async def deliver(self, content: bytes, transaction: Transaction, listener: str) -> Delivered:
        """Check and relay ``content`` (CRLF line ends); ``transaction`` has its recipients already.

        Closes the transaction in every case. Raises nothing but cancellation.
        """
        started = time.perf_counter()
        check: Check | None = None
        try:
            self._refuse_loop(content)
            raw = headers.guard(headers.strip(content, header.VERDICT_FIELDS), header.GUARD_FIELD)
            check = await self._check(raw)
            if check is not None:
                raw = headers.prepend(raw, self._verdict_fields(check))
            reply = await self._relay(raw, check, transaction)
        except NbstreamError as error:
            await transaction.abort()
            _log.warning("message not passed on: %s", error)
            reply = error.reply
        except BaseException:
            await transaction.abort()
            raise
        self._observer.delivered(listener, str(check.verdict) if check else "none")
        _log_message(listener, check, reply, time.perf_counter() - started)
        return Delivered(reply, check)

    @staticmethod
    def _refuse_loop(raw: bytes) -> None:
        if (
            sum(1 for _ in islice(_RECEIVED.finditer(raw, 0, headers.body_offset(raw)), _MAX_RECEIVED + 1))
            > _MAX_RECEIVED
        ):
            raise _Refused(_LOOP)

    async def _check(self, raw: bytes) -> Check | None:
        """The check, or None where it failed and the message passes unmarked."""
        try:
            return await self._filter.check(Message(raw, self._params.limits))
        except Exception as error:
            known = isinstance(error, NbstreamError)
            self._observer.filter_failed("store" if known else "error")
            _log.error("check failed: %s", error, exc_info=not known)
            if self._params.pass_on_failure:
                return None
            raise CheckFailed("check failed") from error

    def _verdict_fields(self, check: Check) -> list[tuple[str, str]]:
        return header.render(
            check.id,
            check.verdict,
            check.probability,
            check.reason,
            model=self._params.model,
            thresholds=check.thresholds,
        )

    async def _relay(self, raw: bytes, check: Check | None, transaction: Transaction) -> Reply:
        if check is not None and check.verdict is Verdict.REJECT:
            raise _Refused(_REFUSED)
        started = time.perf_counter()
        try:
            reply = await transaction.data(raw)
        except RelayUnavailable:
            self._observer.relayed("none", time.perf_counter() - started)
            raise
        self._observer.relayed(str(reply.code), time.perf_counter() - started)
        return reply


class _Refused(NbstreamError):
    """The message itself is refused."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(str(reply))
        self.reply = reply  # type: ignore[misc]  # each refusal has its own


def _log_message(listener: str, check: Check | None, reply: Reply, seconds: float) -> None:
    fields = {
        "listener": listener,
        "id": check.id if check else None,
        "verdict": str(check.verdict) if check else "none",
        "probability": round(check.probability, 6) if check else None,
        "reply": str(reply),
        "milliseconds": round(seconds * 1000, 2),
    }
    _log.info("message", extra={"fields": fields})
