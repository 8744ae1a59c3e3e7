"""Messages written for tests: a stream of spam and ham that a filter can learn to tell apart."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

_SPAM = "claim free prize winner cash offer limited pills casino bonus click urgent"
_HAM = "meeting lunch report friday project budget review family holiday draft agenda"
_COMMON = "the and you for with this that have from please will about time here more"


def samples(count: int, seed: int = 7) -> Iterator[tuple[str, bytes]]:
    """``count`` pairs of label and raw message with LF line ends; the same ones for the same seed."""
    draw = random.Random(seed)
    for number in range(count):
        label = draw.choice(("spam", "ham"))
        words = draw.choices((_SPAM if label == "spam" else _HAM).split(), k=12)
        words += draw.choices(_COMMON.split(), k=20)
        draw.shuffle(words)
        sender = f"{draw.choice(words)}@{'offers.example.com' if label == 'spam' else 'work.example.org'}"
        head = (
            f"Message-ID: <{seed}.{number}@example.org>\nFrom: {sender}\nTo: you@example.net\n"
            f"Subject: {' '.join(draw.sample(words, 4))}\nDate: Sat, 21 Nov 2026 10:{number % 60:02}:00 +0000\n"
        )
        yield label, f"{head}\n{' '.join(words[:16])}\n.{' '.join(words[16:])}\n".encode()


def write_corpus(folder: Path, count: int, seed: int = 7) -> Path:
    """The messages as files, and their index."""
    folder.mkdir(parents=True)
    lines = []
    for number, (label, raw) in enumerate(samples(count, seed)):
        (folder / f"{number}.eml").write_bytes(raw)
        lines.append(f"{label}\t{number}.eml\n")
    index = folder / "index.tsv"
    index.write_text("".join(lines))
    return index
