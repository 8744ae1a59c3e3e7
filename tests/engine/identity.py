"""Whether both engines give the same result for a message, to the last bit.

Each engine has a filter of its own over a model of its own; both are taught the same. Of each message are
compared: key, former key, tokens in their order and their groups, clues with their ratios and counts, score,
prior, probability, verdict and its reason. Floats are compared by all their bits.

    python -m tests.engine.identity --messages 1000000 --seed 7 --processes 2
    python -m tests.engine.identity --corpora DIR        (every message of the archives there, in place of those)

It prints the messages that differ, and of all messages the shares that the library handed back as a whole and
about which it asked Python. A panic of the library, which hands the message back, is an error too. ``--keep DIR``
writes each message that differs into a file, and ``--library FILE`` compares another build.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbstream.assembly.filter import make_filter, message_limits
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.bayes.table_counts import TableCounts
from nbstream.config import Settings
from nbstream.engine.choice import PYTHON, Engine, choose_engine
from nbstream.engine.native_library import LIBRARY_FILE
from nbstream.engine.table import TableFunctions
from nbstream.filter import Filter, SilentObserver
from nbstream.mail.message import Message
from nbstream.policy.incoming_message import incoming_message
from nbstream.store.model.memory_model import MemoryModel
from nbstream.tokens import TOKENIZER_VERSION
from nbstream.tokens.native_tokenizer import NativeTokenizer
from tests.fuzz.target import load_target
from tests.letters import letters
from tests.listeners.smtp.test_broken_mail import RICH
from tests.mutation import mutations
from tests.tokens.generated_mail import TRUSTED_AUTHSERV_IDS, generated_mail

if TYPE_CHECKING:
    from nbstream.filter.results import Check, CheckSeconds
    from nbstream.tokens.tokenizer import Tokens

_NOW = 1_800_000_000.0
_CHUNK = 5000  # messages that one pair of models checks
_TAUGHT = 160  # letters, before the first check: enough for verdicts
_LEARNED_SHARE = 0.03
_BARE_SHARE = 0.1
_SETTINGS = tuple(
    Settings.model_validate(values)
    for values in (
        {},
        {"trusted_authserv_ids": tuple(TRUSTED_AUTHSERV_IDS), "own_received_fields": 1},
        {"limits": {"look_bytes": 2000, "max_parts": 3, "max_depth": 2, "max_tokens": 60}},
    )
)
_WORDS = (
    b"Authentication-Results: y.example; spf=pass smtp.mailfrom=a@b.example\r\n",
    b"Content-Type: text/html; charset=utf-8\r\n",
    b"Content-Transfer-Encoding: quoted-printable\r\n",
    b"Subject: =?iso-8859-1?q?caf=E9?= =?utf-8?b?w6k=?=\r\n",
    b"Date: Sat, 21 Nov 2026 10:00:00 +0100\r\n",
    b"http://www.example.com/a?b=1",
    b"<a href=http://x.example/>",
    b"&amp;&#233;&eacute;",
    "é日本".encode(),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A message for which the engines differ, by its name, and what differs: once by each engine."""

    name: str
    raw: bytes
    what: str
    python: str
    native: str


@dataclass(slots=True)
class Report:
    """What came out of a number of messages."""

    messages: int = 0
    handed_back: int = 0
    asked: int = 0
    differences: list[Difference] = field(default_factory=list)
    panics: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether the engines agree on all messages, and nothing went wrong in the library."""
        return not self.differences and not self.panics

    def add(self, other: Report) -> None:
        """Count the messages of another report too."""
        self.messages += other.messages
        self.handed_back += other.handed_back
        self.asked += other.asked
        self.differences += other.differences
        self.panics += other.panics

    def describe(self) -> str:
        """Return one line."""
        share = 100 / max(1, self.messages)
        return (
            f"{self.messages} messages, {len(self.differences)} differ, {len(self.panics)} panics; "
            f"handed back {self.handed_back * share:.2f} %, asked about {self.asked * share:.2f} %"
        )


class _Checked(SilentObserver):
    """Notes the tokens of the last check."""

    tokens: Tokens | None = None

    def checked(self, check: Check, tokens: Tokens, seconds: CheckSeconds) -> None:
        self.tokens = tokens


class _Calls:
    """Counts the calls of some methods of an object, which work as before."""

    def __init__(self, target: Any, *names: str) -> None:
        self.count = 0
        for name in names:
            setattr(target, name, partial(self._call, getattr(target, name)))

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        self.count += 1
        return method(*arguments)


class _Site:
    """One engine with a model of its own, and a filter for each of the settings."""

    def __init__(self, engine: Engine, half_life: HalfLife) -> None:
        counts = TableCounts.empty(TableFunctions(engine.native_library)) if engine.native_library else None
        model, self._observer = MemoryModel(half_life, counts=counts), _Checked()
        self.filters = [self._filter(settings, model, engine) for settings in _SETTINGS]

    def _filter(self, settings: Settings, model: MemoryModel, engine: Engine) -> Filter:
        made = make_filter(settings, model, model, self._observer, engine=engine)
        return Filter(replace(made.parts, clock=lambda: _NOW), made.policy)

    async def teach(self, seed: int) -> None:
        """Teach letters, enough for verdicts."""
        for label, raw in letters(_TAUGHT, seed):
            await self.filters[0].learn(Message.parse(raw), label, "test")

    async def observe(self, raw: bytes, way: Way) -> dict[str, object]:
        """Return all that is compared of a message."""
        # Each site makes a message of its own: a message keeps what was once computed of it.
        limits, spam_filter = message_limits(_SETTINGS[way.settings]), self.filters[way.settings]
        if way.is_bare_text:
            message = Message.from_text(raw.decode("utf-8", "replace"), limits)
        else:
            message = incoming_message(raw, limits)
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
        "former key": check.former_id,
        "clues": tuple((name, ratio.hex()) for name, ratio in check.clues),
        "score": check.score.hex(),
        "prior": check.prior.hex(),
        "probability": check.probability.hex(),
        "verdict": check.verdict,
        "reason": check.reason,
        "explanation": repr(check.explain(_NOW)),
    }


def native_engine(library: Path = LIBRARY_FILE) -> Engine:
    """Return the native engine of a library. Raises ``ConfigError`` where it does not fit."""
    return choose_engine("native", TOKENIZER_VERSION, file=library, environment={})


def compare(messages: Iterable[tuple[str, bytes]], seed: int, engine: Engine | None = None) -> Report:
    """Compare the engines on these messages, which have names; ``seed`` chooses settings and lessons.

    ``engine`` is compared with Python's; by default it is the native one.
    """
    with _panics() as panics:
        report = asyncio.run(_compare(messages, seed, engine or native_engine()))
    report.panics += panics
    return report


@contextmanager
def _panics() -> Iterator[list[str]]:
    """Collect the lines by which Rust says that it panicked; whatever else goes to standard error is lost."""
    lines: list[str] = []
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
            lines += [line for line in text.splitlines() if "panicked at" in line]


def exercise(messages: Iterable[tuple[str, bytes]], seed: int, engine: Engine) -> Report:
    """Let one engine alone check and learn these messages; the report has the panics."""
    report, draw = Report(), random.Random(seed)

    async def work() -> None:
        site = _Site(engine, NO_HALF_LIFE)
        await site.teach(seed)
        for _, raw in messages:
            await site.observe(raw, Way.drawn(draw))
            report.messages += 1

    with _panics() as panics:
        asyncio.run(work())
    report.panics += panics
    return report


async def _compare(messages: Iterable[tuple[str, bytes]], seed: int, engine: Engine) -> Report:
    draw, report = random.Random(seed), Report()
    half_life = HalfLife(30.0, _NOW - 86400.0 * draw.randrange(100)) if draw.random() < 0.3 else NO_HALF_LIFE
    pair = EnginePair(engine, half_life)
    await pair.teach(seed)
    tokenizers = [spam_filter.parts.tokenizer for spam_filter in pair.sites[1].filters]
    natives: list[Any] = [tokenizer for tokenizer in tokenizers if isinstance(tokenizer, NativeTokenizer)]
    handed_back = [_Calls(native._specification, "take_apart") for native in natives]
    asked = [_Calls(native._foreign_pieces, "answer") for native in natives]
    for name, raw in messages:
        before = sum(calls.count for calls in handed_back), sum(calls.count for calls in asked)
        if difference := await pair.compare(name, raw, Way.drawn(draw)):
            report.differences.append(difference)
        report.messages += 1
        report.handed_back += sum(calls.count for calls in handed_back) > before[0]
        report.asked += sum(calls.count for calls in asked) > before[1]
    return report


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

    def __init__(self, engine: Engine, half_life: HalfLife = NO_HALF_LIFE) -> None:
        self.sites = _Site(PYTHON, half_life), _Site(engine, half_life)

    async def teach(self, seed: int) -> None:
        """Teach letters, enough for verdicts."""
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


@cache
def _originals() -> Sequence[bytes]:
    seeds = load_target("message_tokens").seeds
    return (RICH, *seeds, *(raw for _, raw in letters(50)), *(raw for _, raw in generated_mail()))


def mutated_mail(count: int, seed: int, originals: Sequence[bytes] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield mutated messages with their names: of ``originals``, or of generated mail with every kind of token."""
    for number, raw in enumerate(mutations(originals or _originals(), count, seed, _WORDS)):
        yield f"seed {seed}, message {number}", raw


def corpus_mail(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of all archives (``*.tar.*``) in ``folder``, with their names."""
    for archive in sorted(folder.glob("*.tar.*")):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file:
                    yield f"{archive.name}: {member.name}", file.read()


def _chunks(messages: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    while chunk := list(islice(messages, 1000)):
        yield chunk


def _compare_mutated(library: Path, chunk: tuple[int, int]) -> Report:
    count, seed = chunk
    return compare(mutated_mail(count, seed), seed, native_engine(library))


def _compare_given(library: Path, messages: list[tuple[str, bytes]]) -> Report:
    return compare(messages, len(messages), native_engine(library))


def compare_mutated(count: int, seed: int, processes: int, library: Path = LIBRARY_FILE) -> Iterator[Report]:
    """Compare the engines on mutated messages in several processes, and yield reports as they come."""
    sizes = (min(_CHUNK, count - start) for start in range(0, count, _CHUNK))
    chunks = [(size, seed * 10**6 + number) for number, size in enumerate(sizes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(partial(_compare_mutated, library), chunks)


def compare_corpora(folder: Path, processes: int, library: Path = LIBRARY_FILE) -> Iterator[Report]:
    """Compare the engines on every message of the archives in ``folder``, and yield reports as they come."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(partial(_compare_given, library), _chunks(corpus_mail(folder)))


def main() -> int:
    """Compare, print what differs, and return 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.identity", description="compare both engines")
    parser.add_argument("--messages", type=int, default=20_000, help="how many mutated messages (default: 20000)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations, and of what is learned")
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="compare the archives there")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where messages that differ are written")
    parser.add_argument("--library", dest="native_library", type=Path, metavar="FILE", default=LIBRARY_FILE)
    options = parser.parse_args()
    report, started = Report(), time.monotonic()
    if options.corpora:
        reports = compare_corpora(options.corpora, options.processes, options.native_library)
    else:
        reports = compare_mutated(options.messages, options.seed, options.processes, options.native_library)
    for part in reports:
        report.add(part)
        for difference in part.differences:
            _show(difference, options.keep)
        for panic in part.panics:
            print(f"\n{panic}")
        print(f"\r{time.monotonic() - started:.0f} s: {report.describe()}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(report.describe())
    return int(not report.is_clean)


def _show(difference: Difference, folder: Path | None) -> None:
    print(f"\n{difference.name}: {difference.what}\n  python {difference.python}\n  native {difference.native}")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in difference.name)
        (folder / name).write_bytes(difference.raw)


if __name__ == "__main__":
    sys.exit(main())
