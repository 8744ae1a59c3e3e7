"""The mail on which the engines are compared: mutated messages, and those of corpora."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.fuzz.target import load_target
from tests.harness.generated_mail import generated_mail
from tests.harness.mutation import mutations
from tests.harness.samples import samples
from tests.listeners.smtp.test_broken_mail import RICH

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


@cache
def _originals() -> Sequence[bytes]:
    seeds = load_target("message_tokens").seeds
    return (RICH, *seeds, *(raw for _, raw in samples(50)), *(raw for _, raw in generated_mail()))


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
