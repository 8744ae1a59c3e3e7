"""The view tokens: those that speak loudest for each class, with a search.

Rules: the counts are those in memory, copied in one step and ordered in a thread, by one request at a time in each
process; what was found is shown again for a while. A model that is too large to be copied without a pause of other
work is not searched here.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.clues import TokenVote, top_tokens
from nbstream.bayes.counts import CLASSES
from nbstream.tokens.origins import token_origin
from nbstream.tokens.private_tokens import are_private
from nbstream.web.requests import Answer, Page, PageRefused, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from nbstream.bayes.clues import NamedCounts

MAX_TOKENS = 500_000
"""A model of more tokens is not searched: to copy so many stops other work for some 30 ms."""

_SHOWN = 50  # tokens of each class
_MAX_PART = 100  # characters
_CACHE_SECONDS = 60.0
_MAX_CACHED = 50
_DEADLINE_SECONDS = 20.0

_Found: TypeAlias = Mapping[str, Sequence[TokenVote]]


class TokensView(View):
    """Shows tokens.

    ``vocabulary_size`` returns the number of tokens, ``counts`` all of their counts, or raises
    ``StoreUnavailable`` before they are loaded.
    """

    navigation = ("/ui/tokens", "Tokens")

    def __init__(
        self,
        vocabulary_size: Callable[[], int],
        counts: Callable[[], NamedCounts],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._vocabulary_size = vocabulary_size
        self._counts = counts
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, _Found]] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""
        return (PageRoute("GET", "/ui/tokens", self._show),)

    async def _show(self, request: PageRequest) -> Answer:
        part = request.query.get("part", "")[:_MAX_PART]
        size = self._vocabulary_size()
        found = await self._find(part) if 0 < size <= MAX_TOKENS else {}
        return Page(
            "admin/tokens.html",
            {
                "part": part,
                "size": size,
                "is_too_large": size > MAX_TOKENS,
                "most": MAX_TOKENS,
                "found": found,
                "are_private": are_private(vote.token.encode() for votes in found.values() for vote in votes),
                "origin": token_origin,
            },
        )

    async def _find(self, part: str) -> _Found:
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS), self._one_at_a_time:
                cached = self._cache.get(part)
                if cached and self._clock() - cached[0] < _CACHE_SECONDS:
                    return cached[1]
                found = await asyncio.to_thread(self._search, self._counts(), part.encode("utf-8", "replace"))
        except TimeoutError as error:
            raise PageRefused(503, "Other searches are at work. Please try again in a moment.") from error
        self._cache[part] = self._clock(), found
        self._cache.move_to_end(part)
        if len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return found

    def _search(self, counts: NamedCounts, part: bytes) -> _Found:
        return {label: top_tokens(counts, label, _SHOWN, part) for label in reversed(CLASSES)}
