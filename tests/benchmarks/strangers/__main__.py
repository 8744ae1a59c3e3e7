"""``make strangers``: what strangers can do to a filter, measured on real mail, into STRANGERS.md.

    python -m tests.benchmarks.strangers DIR

DIR holds trec07p-20k.tar.xz and spamassassin.tar.xz.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from nbstream import __version__
from nbstream.evaluation.streams import read_index
from tests.benchmarks.strangers import attack
from tests.benchmarks.strangers.mails import frequent_sender, read_letter
from tests.corpora import unpack

PAGE = Path(__file__).parents[1] / "STRANGERS.md"
STREAMS = {
    "trec07p-20k": ("trec07p-20k.tar.xz", "trec07p-20k/index.tsv"),
    "spamassassin shuffled": ("spamassassin.tar.xz", "spamassassin/index_shuffled.tsv"),
}
TAUGHT, LATER = 2000, 3000
SALAD_WORDS = (0, 10, 50, 100, 200, 500, 1000, 2000)

TEXT = """\
# Strangers

Written by `make strangers CORPORA=DIR` with nbstream {version}. People label the first {taught:,} messages of a
stream. After that nobody says anything, `autolearn: {{}}` is on, and a stranger writes. He knows the ham that
people taught, and sends only such mail as is learned. What automatic learning may change is bounded: see
[Automatic learning](../../docs/guides/autolearning.md).

## A campaign that is prepared as ham

Each mail of the stranger is public ham with the five words and the link of a campaign ("the whole campaign": with
all of its text), and is followed by a plain spam, so that no class leads. The campaign itself is spam with these
words and this link: {watched} messages that were beyond 0.999 before. The figures are P(spam), of the message with
the lowest one.

{campaigns}
## Spam with the words of a known correspondent

Each mail of the stranger is spam with the whole text of a mail from the sender who wrote the most ham, and is
followed by a plain ham. Watched is the later ham of senders who wrote three ham or more. The figures are P(spam)
of the message with the highest one, and how many are called spam (from 0.95 on).

{impostors}
## Spam that hides among words

A hundred later spam messages, with words drawn from all words of the ham that people taught as visible text at
their end, or with the whole text of one such ham. Nothing is learned. There is no target.

{salads}"""


def main() -> None:
    """Unpack the archives, attack, write the page."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.benchmarks.strangers DIR")
    corpora = Path(sys.argv[1])
    absent = [archive for archive, _ in STREAMS.values() if not (corpora / archive).is_file()]
    if absent:
        sys.exit(f"strangers: {corpora} has no {', '.join(absent)}")
    with tempfile.TemporaryDirectory() as folder:
        streams = {}
        for name, (archive, index) in STREAMS.items():
            unpack(corpora / archive, Path(folder))
            streams[name] = read_stream(Path(folder) / index, TAUGHT, LATER)
        PAGE.write_text(asyncio.run(page(streams)), encoding="utf-8")


def read_stream(index: Path, taught: int, later: int) -> attack.Stream:
    """The first ``taught`` messages of an index, and the ``later`` ones after them."""
    letters = [read_letter(label, path.read_bytes()) for label, path, _ in read_index(index, taught + later)]
    return attack.Stream(letters[:taught], letters[taught:])


async def page(streams: dict[str, attack.Stream]) -> str:
    """The page: all attacks on all streams."""
    campaigns, impostors, salads = [], [], []
    for name, stream in streams.items():
        people, known = await attack.teach(stream.taught), frequent_sender(stream.taught)
        for attack_name, stranger in attack.campaigns(stream).items():
            outcome = await attack.attack_as_ham(stream, people, stranger, known)
            lowest = [f"{min(at_mark):.4f}" for at_mark in outcome.probabilities]
            campaigns.append([name, attack_name, *lowest, _learned(outcome)])
        for attack_name, stranger in attack.impostors().items():
            outcome = await attack.attack_as_spam(stream, people, stranger, known)
            highest = [f"{max(at_mark):.4f}, {_called_spam(at_mark)}" for at_mark in outcome.probabilities]
            impostors.append([name, attack_name, *highest, _learned(outcome)])
        for salad_name, salad in _salads(stream).items():
            probabilities = await attack.hide_among_words(stream, people, salad)
            called = _called_spam(probabilities), sum(p < 0.5 for p in probabilities)
            salads.append([name, salad_name, f"{median(probabilities):.4f}", *map(str, called)])
    marks = [f"after {mark:,} pairs" for mark in attack.MARKS]
    return TEXT.format(
        version=__version__,
        taught=TAUGHT,
        watched=attack.WATCHED,
        campaigns=_table(["stream", "attack", "before", *marks, "learned (ham, spam)"], campaigns),
        impostors=_table(["stream", "attack", "before", *marks, "learned (ham, spam)"], impostors),
        salads=_table(["stream", "added", "median of P(spam)", "called spam", "called ham"], salads),
    )


def _salads(stream: attack.Stream) -> dict[str, Callable[[random.Random], str]]:
    ham = stream.of_class("ham")
    words = sorted({word for letter in ham for word in letter.words})

    def words_salad(count: int) -> Callable[[random.Random], str]:
        return lambda draw: " ".join(draw.choices(words, k=count))

    salads = {f"{count:,} words": words_salad(count) for count in SALAD_WORDS}
    return {**salads, "the text of a ham": lambda draw: draw.choice(ham).text}


def _called_spam(probabilities: Iterable[float]) -> int:
    return sum(p >= 0.95 for p in probabilities)


def _learned(outcome: attack.Outcome) -> str:
    return ", ".join(f"{count:,}" for count in outcome.learned)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
