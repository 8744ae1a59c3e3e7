"""The most messages a second that one machine takes until p99 of the waits passes 50 ms.

Messages come at random moments, by HTTP, SMTP and milter, to one worker and to two, with some lessons beside them.
The client and the next hop share the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import uvloop

from tests.benchmarks.speed import clients
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.figures import percentile
from tests.benchmarks.speed.listeners import relaying, smtp_requests
from tests.benchmarks.speed.plan import LONGEST_WAIT_SECONDS, RATE, WORKERS, capacity
from tests.benchmarks.speed.processes import CannotMeasure
from tests.harness import milter_frames
from tests.harness.milter_listener import MilterClient

_FIRST_RATE = 200.0
_MOST_SECONDS = 3.0  # of one rate: there are more than a hundred to try
_STEPS = 1.5, 1.15
"""The rate rises by the first factor while it serves, and then by the second from the last that did."""
_CONNECTIONS = 64
_LINE_END = re.compile(rb"\r\n|\r|\n")


class _Milter(MilterClient):
    """The mail server's side of the milter protocol: one message after another over one connection."""

    @classmethod
    async def agreed(cls, address: str) -> _Milter:
        """A connection after the negotiation."""
        host, _, port = address.rpartition(":")
        client = cls(*await asyncio.open_connection(host, int(port)))
        await client.negotiate()
        return client

    async def exchange(self, request: bytes) -> None:
        """One message, from the connection of its client to the reply at its end."""
        answer = await self.deliver(request)
        self.send(milter_frames.QUIT_NC)
        if answer[-1].command not in (b"a", b"c"):
            raise CannotMeasure(f"milter: {answer[-1]}")


def run(bench: Bench) -> None:
    """Measure each listener with each number of workers and each rate of lessons."""
    messages = [path.read_bytes() for _, path in bench.checked]
    mail = {
        "HTTP": [clients.Http.request("/checkv2", raw) for raw in messages],
        "SMTP": smtp_requests(bench),
        "milter": [_LINE_END.sub(b"\r\n", raw) for raw in messages],
    }
    unseen = bench.unseen[len(messages) :]
    lessons = itertools.cycle(
        [clients.Http.request(f"/learn{label}", path.read_bytes()) for label, path in unseen]
    )
    for workers in WORKERS:
        with relaying(bench, 'milter: {listen: "127.0.0.1:0"}', workers=workers) as (ours, _):
            connect: dict[str, clients.Connect] = {
                "HTTP": partial(clients.Http.to, ours.address("http")),
                "SMTP": partial(clients.Smtp.greeted, ours.address("smtp")),
                "milter": partial(_Milter.agreed, ours.address("milter")),
            }
            for listener, lesson_rate in itertools.product(mail, bench.scale.lesson_rates):
                case = capacity(listener, workers, lesson_rate)
                teaching = _Stream(connect["HTTP"], lessons, lesson_rate)
                with bench.skipping(case):
                    wait = partial(_p99, _Stream(connect[listener], itertools.cycle(mail[listener]), 0), teaching)
                    bench.record(case, RATE, _highest_rate(wait, min(bench.scale.seconds, _MOST_SECONDS)))


@dataclass(frozen=True, slots=True)
class _Stream:
    """Requests without end, and how many of them come in a second."""

    connect: clients.Connect
    requests: Iterator[bytes]
    rate: float

    async def send(self, seconds: float) -> clients.Load:
        """Send requests for some seconds; none where the rate is 0."""
        if not self.rate:
            return clients.Load()
        portion = list(itertools.islice(self.requests, round(1.5 * self.rate * seconds) + 10))  # more than come
        return await clients.at_rate(self.connect, portion, self.rate, seconds, connections=_CONNECTIONS)


async def _p99(mail: _Stream, teaching: _Stream, rate: float, seconds: float) -> float:
    load, _ = await asyncio.gather(replace(mail, rate=rate).send(seconds), teaching.send(seconds))
    return percentile(load.waits, 0.99)


def _highest_rate(p99: Callable[[float, float], Awaitable[float]], seconds: float) -> float:
    """Return the highest rate that was tried at which p99 stayed below the limit; 0 if none did."""
    highest, rate = 0.0, _FIRST_RATE
    for step in _STEPS:
        while rate and uvloop.run(p99(rate, seconds)) <= LONGEST_WAIT_SECONDS:  # type: ignore[arg-type]
            highest, rate = rate, rate * step
        rate = highest * _STEPS[-1]
    return highest
