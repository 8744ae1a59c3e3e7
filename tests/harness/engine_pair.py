"""Two engines, each with a filter of its own over a model of its own, and in what they differ on a message.

Both are taught the same. Of each message are compared: key, former key, tokens in their order and their groups,
clues with their ratios and counts, score, prior, probability, verdict and its reason. Floats are compared by all
their bits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.bayes.table_counts import TableCounts
from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.config import Settings
from nbstream.engine.choice import ENVIRONMENT, LIBRARY_FILE, PYTHON, Engine, choose_engine
from nbstream.filter import Filter, FilterObserver
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.policy.header import MessageReader
from nbstream.store.model.memory_model import MemoryModel
from nbstream.tokens.native_tokenizer import make_tokenizer
from nbstream.tokens.tokenizer import TokenizerOptions
from tests.harness.generated_mail import TRUSTED_AUTHSERV_IDS
from tests.harness.samples import samples

if TYPE_CHECKING:
    from nbstream.filter.results import CheckSeconds
    from nbstream.policy.check import Check
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.tokens.tokens import Tokens

NOW = 1_800_000_000.0
"""The time of all lessons and checks, in seconds since the epoch."""

_TAUGHT = 160  # messages, before the first check: enough for verdicts
_LEARNED_SHARE = 0.03
_BARE_SHARE = 0.1
SETTINGS = (
    (MessageLimits(), TokenizerOptions()),
    (MessageLimits(), TokenizerOptions(trusted_authserv_ids=TRUSTED_AUTHSERV_IDS, own_received_fields=1)),
    (MessageLimits(2000, 3, 2), TokenizerOptions(max_tokens=60)),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A message for which the engines differ, by its name, and what differs: once by each engine."""

    name: str
    raw: bytes
    what: str
    python: str
    native: str


class _Checked(FilterObserver):
    """Notes the tokens of the last check."""

    tokens: Tokens | None = None

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        self.tokens = check.tokens


class Site:
    """One engine with a model of its own, and a filter for each of the settings."""

    def __init__(self, engine: Engine) -> None:
        counts = TableCounts(engine.native_library) if engine.native_library else None
        model, self._observer = MemoryModel(counts=counts), _Checked()
        self.filters = [self._filter(options, model, engine) for _, options in SETTINGS]

    def _filter(self, options: TokenizerOptions, model: MemoryModel, engine: Engine) -> Filter:
        made = make_filter(Settings(), model, model, self._observer, engine=engine)
        tokenizer = make_tokenizer(options, engine.native_library)
        return Filter(replace(made.parts, tokenizer=tokenizer, clock=lambda: NOW), made.policy)

    async def teach(self, seed: int) -> None:
        """Teach messages, enough for verdicts."""
        for label, raw in samples(_TAUGHT, seed):
            await self.filters[0].learn(Message.parse(raw), label, "test")

    async def observe(self, raw: bytes, way: Way) -> dict[str, object]:
        """Return all that is compared of a message."""
        # Each site makes a message of its own: a message keeps what was once computed of it.
        limits, spam_filter = SETTINGS[way.settings][0], self.filters[way.settings]
        if way.is_bare_text:
            message = Message.from_text(raw.decode("utf-8", "replace"), limits)
        else:
            message = MessageReader(limits).read_incoming(raw)
        check = await spam_filter.check(message)
        tokens = self._observer.tokens
        assert tokens is not None
        observed = {"sizes": tokens.sizes, "tokens": tokens.all.joined, **_observed_check(check)}
        if way.is_learned:
            observed |= await _observed_lesson(spam_filter, message, way.label)
        return observed


async def _observed_lesson(spam_filter: Filter, message: Message, label: str | None) -> dict[str, object]:
    if label is None:
        lesson = await spam_filter.unlearn(message, "test")
    else:
        lesson = await spam_filter.learn(message, label, "test")
    before = {f"{name} before the lesson": value for name, value in _observed_check(lesson.before).items()}
    after = {f"{name} after the lesson": value for name, value in _observed_check(lesson.after).items()}
    return {"outcome": lesson.outcome, **before, **after}


def _observed_check(check: Check) -> dict[str, object]:
    return {
        "key": check.id,
        "clues": tuple((name, ratio.hex()) for name, ratio in check.clues),
        "score": check.score.hex(),
        "prior": check.prior.hex(),
        "probability": check.probability.hex(),
        "verdict": check.verdict,
        "reason": check.reason,
        "explanation": repr(check.explain(NOW)),
    }


def native_engine(library: Path = LIBRARY_FILE) -> Engine:
    """Return the native engine of a library. Raises ``ConfigError`` where it does not fit."""
    return choose_engine(file=library, environment={ENVIRONMENT: "native"})


@dataclass(frozen=True, slots=True)
class Way:
    """What is done with a message: by which settings, as a bare text or as mail, and whether it is learned.

    A ``label`` of None stands for unlearning.
    """

    settings: int = 0
    is_bare_text: bool = False
    is_learned: bool = False
    label: str | None = None

    @classmethod
    def drawn(cls, draw: random.Random) -> Way:
        """Return one way of all."""
        return cls(
            draw.choice((0, 0, 1, 2)),
            draw.random() < _BARE_SHARE,
            draw.random() < _LEARNED_SHARE,
            draw.choice(("spam", "ham", None)),
        )

    def __str__(self) -> str:
        return f"settings {self.settings}{', bare text' if self.is_bare_text else ''}"


class EnginePair:
    """Python's engine and another one, each with a model of its own. Both are taught the same."""

    def __init__(self, engine: Engine) -> None:
        self.sites = Site(PYTHON), Site(engine)

    async def teach(self, seed: int) -> None:
        """Teach messages, enough for verdicts."""
        for site in self.sites:
            await site.teach(seed)

    async def compare(self, name: str, raw: bytes, way: Way) -> Difference | None:
        """Return in what the engines differ on a message, or None."""
        python, native = [await site.observe(raw, way) for site in self.sites]
        what = next((key for key in python if python[key] != native[key]), None)
        if what is None:
            return None
        return Difference(f"{name}, {way}", raw, what, *where_they_differ(python[what], native[what]))


def where_they_differ(python: object, native: object) -> tuple[str, str]:
    """Return the first parts of two values that differ: tokens one by one, all else as a whole."""
    if isinstance(python, bytes) and isinstance(native, bytes):
        ours, theirs = python.split(b"\n"), native.split(b"\n")
        first = next((n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
        first = min(len(ours), len(theirs)) if first is None else first
        return f"{first}: {ours[first : first + 3]!r}", f"{first}: {theirs[first : first + 3]!r}"
    return repr(python), repr(native)
