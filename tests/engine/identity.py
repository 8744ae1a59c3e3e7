"""Whether both engines give the same result for a message, to the last bit.

``engine_pair`` says what is compared of a message, ``compared_mail`` has the messages.

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
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from nbstream.engine.choice import LIBRARY_FILE, Engine
from nbstream.tokens.native_tokenizer import NativeTokenizer
from tests.engine.compared_mail import corpus_mail, mutated_mail
from tests.harness.engine_pair import Difference, EnginePair, Site, Way, native_engine

_CHUNK = 5000  # messages that one pair of models checks


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


class _Calls:
    """Counts the calls of some methods of an object, which work as before."""

    def __init__(self, target: Any, *names: str) -> None:
        self.count = 0
        for name in names:
            setattr(target, name, partial(self._call, getattr(target, name)))

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        self.count += 1
        return method(*arguments)


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
        site = Site(engine)
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
    pair = EnginePair(engine)
    await pair.teach(seed)
    tokenizers = [spam_filter.parts.tokenizer for spam_filter in pair.sites[1].filters]
    natives: list[Any] = [tokenizer for tokenizer in tokenizers if isinstance(tokenizer, NativeTokenizer)]
    handed_back = [_Calls(native._specification, "tokenize") for native in natives]
    asked = [_Calls(native._foreign_pieces, "answer") for native in natives]
    for name, raw in messages:
        before = sum(calls.count for calls in handed_back), sum(calls.count for calls in asked)
        if difference := await pair.compare(name, raw, Way.drawn(draw)):
            report.differences.append(difference)
        report.messages += 1
        report.handed_back += sum(calls.count for calls in handed_back) > before[0]
        report.asked += sum(calls.count for calls in asked) > before[1]
    return report


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
