"""The fair sample: messages that are drawn by chance, of which people are asked what they are.

Rules: pure. A message is drawn if the keyed hash of its message key is below the share that holds at the time.
Nobody looks at the message for that: whether it is drawn does not depend on its P(spam), on its verdict, or on who
labels it. Whoever does not know the key of the sample cannot choose to be in it or not. Survey sampling calls this
Poisson sampling with permanent random numbers (Ohlsson, "Coordination of samples using permanent random numbers",
1995). What follows from it for budgets stands in ``policy.budget``.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

_MAX_SHARES = 20  # what was drawn by a still older share does not count any more
_HASH_BYTES = 8
_HASHES: float = 2.0 ** (8 * _HASH_BYTES)


@dataclass(frozen=True, slots=True)
class FairSample:
    """Which messages are drawn.

    ``key`` is a secret of at most 64 bytes. ``shares`` are the shares of all messages, from 0 to 1, that were
    to be drawn, each with the time from which it held, in seconds since the epoch, the oldest first. Before the
    first time nothing is drawn.
    """

    key: str = ""
    shares: tuple[tuple[float, float], ...] = ()

    @property
    def share(self) -> float:
        """The share that was set last."""
        return self.shares[-1][1] if self.shares else 0.0

    @property
    def largest_share(self) -> float:
        """The largest share of all."""
        return max((share for _, share in self.shares), default=0.0)

    @property
    def since(self) -> float:
        """When the first share began, in seconds since the epoch; infinite without one."""
        return self.shares[0][0] if self.shares else math.inf

    def draws(self, message_key: str, at: float) -> bool:
        """Return whether the message is drawn at that time, in seconds since the epoch."""
        share = next((share for since, share in reversed(self.shares) if since <= at), 0.0)
        if not share:
            return False
        digest = hashlib.blake2b(message_key.encode(), digest_size=_HASH_BYTES, key=self.key.encode()).digest()
        return int.from_bytes(digest) / _HASHES < share

    def with_share(self, share: float, since: float) -> FairSample:
        """Return the sample in which ``share`` holds from that time on: the same one if it holds already."""
        if share == self.share:
            return self
        return replace(self, shares=(*self.shares, (since, share))[-_MAX_SHARES:])

    def pack(self) -> str:
        """Return the text that is stored."""
        return " ".join([self.key, *(f"{since!r}:{share!r}" for since, share in self.shares)])

    @classmethod
    def unpack(cls, packed: str) -> FairSample:
        """Return the sample that ``pack`` packed, an empty one of an empty text. Raises ``ValueError``."""
        key, *texts = packed.split(" ")
        pairs = [text.split(":") for text in texts]
        shares = tuple((float(since), float(share)) for since, share in pairs)
        is_sample = all(math.isfinite(since) and 0 <= share <= 1 for since, share in shares)
        if not is_sample or len(key.encode()) > hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError("this is no fair sample")
        return cls(key, shares)


NO_SAMPLE = FairSample()
"""The sample of a model that draws nothing."""
