"""Near-copies of mail whose label contradicted the check: how many of them are called wrong after it.

    python -m tests.benchmarks.near_copies INDEX

Every label of the stream is learned at once. A near-copy has the label of an earlier contradiction, the same list
(List-Id) or sender (From), and shares at least 80 % of the tokens with it, of the larger of the two. It is called
wrong if it is on the other side of ``verdict.unsure`` than its label. The result is printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from email.utils import parseaddr
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.config import Settings
from nbstream.evaluation.regimes import LabelledCheck
from nbstream.evaluation.run import CachingTokenizer
from nbstream.evaluation.streams import LabelledContent, read_stream
from nbstream.store.model.memory_model import MemoryModel

if TYPE_CHECKING:
    from nbstream.mail.message import Message

SHARE = 0.8


@dataclass(frozen=True, slots=True)
class NearCopies:
    """The contradictions of a stream, and the near-copies that followed them.

    ``wrong`` of the ``copies`` were called wrong, of one contradiction at most ``most_wrong``; of ``with_several``
    contradictions more than one copy.
    """

    contradictions: int
    copies: int
    wrong: int
    most_wrong: int
    with_several: int


@dataclass(slots=True)
class _Contradiction:
    label: str
    tokens: frozenset[bytes]
    copies: int = 0
    wrong: int = 0


@dataclass(slots=True)
class CopyCounter:
    """Finds the contradiction that a message is a near-copy of, and counts."""

    _all: list[_Contradiction] = field(default_factory=list)
    _by_origin: dict[str, list[_Contradiction]] = field(default_factory=lambda: defaultdict(list))

    def add(self, case: LabelledCheck, tokens: Iterable[bytes]) -> None:
        """Count a message before its label is learned; a contradiction that copies no earlier one is a new one."""
        token_set, message_origins = frozenset(tokens), origins(case.message)
        original = self._original(case.label, token_set, message_origins)
        if original:
            original.copies += 1
            original.wrong += case.is_contradiction
        elif case.is_contradiction:
            contradiction = _Contradiction(case.label, token_set)
            self._all.append(contradiction)
            for origin in message_origins:
                self._by_origin[origin].append(contradiction)

    def result(self) -> NearCopies:
        """Return the counts of all that was added."""
        wrong = [contradiction.wrong for contradiction in self._all]
        copies = sum(contradiction.copies for contradiction in self._all)
        several = sum(count > 1 for count in wrong)
        return NearCopies(len(self._all), copies, sum(wrong), max(wrong, default=0), several)

    def _original(
        self, label: str, tokens: frozenset[bytes], message_origins: Iterable[str]
    ) -> _Contradiction | None:
        for origin in message_origins:
            for contradiction in self._by_origin.get(origin, ()):
                larger = max(len(tokens), len(contradiction.tokens))
                if contradiction.label == label and len(tokens & contradiction.tokens) >= SHARE * larger:
                    return contradiction
        return None


def origins(message: Message) -> tuple[str, ...]:
    """Return the list and the sender of a message, as far as its header names them."""
    list_id, sender = message.first_field("list-id"), message.first_field("from")
    address = parseaddr(sender.text)[1].lower() if sender else ""
    return (
        *([f"list {list_id.text.strip().lower()}"] if list_id else []),
        *([f"from {address}"] if address else []),
    )


async def count_near_copies(messages: Iterable[LabelledContent]) -> NearCopies:
    """Check and learn a stream of mail in the default configuration, and count its near-copies."""
    settings, model, counter = Settings(), MemoryModel(), CopyCounter()
    spam_filter = make_filter(settings, model, model, wrap_tokenizer=CachingTokenizer)
    for labelled in messages:
        assert isinstance(labelled.content, bytes)
        message = make_message_reader(settings).read_incoming(labelled.content)
        case = LabelledCheck(message, labelled.label, await spam_filter.check(message))
        counter.add(case, spam_filter.parts.tokenizer.tokenize(message).all)
        await spam_filter.learn(message, labelled.label, "near_copies")
    return counter.result()


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(count_near_copies(read_stream(Path(sys.argv[1])).messages)))))
