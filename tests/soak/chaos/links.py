"""The connections of one host to Redis, which can be made to fail."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.harness.redis.proxy import Fate, Proxy


class Link(Proxy):
    """A proxy before Redis. ``fate`` is what becomes of each request with ``probability``."""

    def __init__(self, target: Path, socket: Path) -> None:
        super().__init__(target, socket, self._decide)
        self._healthy = asyncio.Event()
        self._generator = random.Random()
        self.heal()

    def heal(self) -> None:
        """Pass everything on again; requests that were waiting go on."""
        self._fate, self._probability, self._delay_seconds = Fate.PASS, 0.0, 0.0
        self.reply_bytes = None
        self._healthy.set()

    def spoil(self, fate: Fate, probability: float, draw: int) -> None:
        """Let this become of each request with that probability."""
        self._generator.seed(draw)
        self._fate, self._probability = fate, probability

    def delay(self, seconds: float, draw: int) -> None:
        """Let each request wait up to so long."""
        self._generator.seed(draw)
        self._delay_seconds = seconds

    def hold(self) -> None:
        """Let all requests wait until ``heal``."""
        self._healthy.clear()

    async def _decide(self, request: bytes) -> Fate:
        if self._delay_seconds:
            await asyncio.sleep(self._generator.random() * self._delay_seconds)
        await self._healthy.wait()
        return self._fate if self._generator.random() < self._probability else Fate.PASS
