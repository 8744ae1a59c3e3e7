"""The kinds of ham: which of the classes other than spam a message most probably belongs to.

Rules: pure; nothing here changes P(spam). A lesson of a kind is a lesson of ham. Beside what ham learns, it adds
its weight once more, to sums (see ``bayes.counts``) of this kind: the number of its messages, the weight of its
tokens, and the weight of each token, whose name is hashed. The ledger keeps these sums as any others. So all that
learns, unlearns, moves or mends lessons is exact for kinds without knowing them. Ham that is of no other kind is
what ham has without the sums of the other kinds.

The probability of a kind is that of a multinomial naive Bayes among the kinds, as in ``multinomial``. The
strongest clues vote. The constants were chosen on one corpus alone; see docs/experiments.md, "Kinds of ham".
"""

from __future__ import annotations

import binascii
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.clues import Clue
from nbstream.bayes.counts import CLASSES, SUM_PREFIX, WEIGHT_ONE
from nbstream.bayes.multinomial import HAM, elementwise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Sums, Totals
    from nbstream.tokens.tokens import Tokens

PLAIN = "ham"
"""The kind of all ham that is of no other kind."""

MIN_MESSAGES = 20
"""A kind that has learned fewer messages takes no part: it has no probability yet."""

_ALPHA = 0.01  # as that of ``multinomial``, but a kind has fewer messages than ham, and a larger one favours it
_MAX_CLUES = 30
_TEMPERATURE = 32.0  # nats of the clues that count as one: words come together
_MESSAGES, _TOKENS = b"/messages", b"/tokens"
MESSAGES_PATTERN = b"=*/messages"
"""The pattern of the names of the sums that count the messages of a kind."""

_MESSAGES_NAME = re.compile(rb"=([a-z][a-z0-9-]{0,30})/messages")
_DIGEST_BYTES = 9  # twelve characters of base64: no other name ends like that


def label_of(column: str) -> str:
    """Return the label of the messages of a class or a column: those of every class but spam are ham."""
    return "spam" if column == "spam" or column.startswith("auto-spam:") else PLAIN


def automatic_columns(generation: int) -> tuple[str, str]:
    """Return the columns of what is learned without people, in the order of ``CLASSES``.

    To forget all of that is to begin the next generation. The name of no class has a colon.
    """
    return f"auto-{CLASSES[0]}:{generation}", f"auto-{CLASSES[1]}:{generation}"


def is_automatic(column: str) -> bool:
    """Return whether the column has what was learned without people."""
    return ":" in column


def kind_of(class_name: str) -> str:
    """Return the kind of the messages of a class; empty for spam and for plain ham."""
    return "" if class_name in CLASSES else class_name


def kind_sums(kind: str, tokens: Sequence[bytes], weight: int) -> Sums:
    """Return the sums that a lesson of ``kind`` adds; there are none where it is empty.

    ``weight`` is that of the ledger entry for each of its distinct ``tokens``.
    """
    if not kind:
        return ()
    prefix = SUM_PREFIX + kind.encode()
    sums = [(messages_name(kind), WEIGHT_ONE), (prefix + _TOKENS, weight * len(tokens))]
    if weight:
        sums += [(prefix + digest, weight) for digest in map(_digest, tokens)]
    return sums


def messages_name(kind: str) -> bytes:
    """Return the name of the sum that counts the messages of a kind, each as a full weight."""
    return SUM_PREFIX + kind.encode() + _MESSAGES


def kind_of_sums(sums: Sums) -> str:
    """Return the kind of a lesson that added these sums; empty for a lesson of no kind, or of plain ham."""
    return kind_of_name(sums[0][0]) if sums else ""


def kind_of_packed_sums(packed: bytes) -> str:
    """Return the kind of a lesson whose sums the ledger keeps in these bytes, which begin with a name."""
    return kind_of_name(packed.partition(b" ")[0])


def kind_of_name(name: bytes) -> str:
    """Return the kind whose messages the sum of this name counts; empty for every other name."""
    match = _MESSAGES_NAME.fullmatch(name)
    return match[1].decode() if match else ""


@lru_cache(maxsize=1 << 15)  # most tokens of a message are those of many others; up to 7 MB
def _digest(token: bytes) -> bytes:
    """Return the end of the name of the sum of a token: neither white space nor a colon is in it."""
    digest = hashlib.blake2b(token, digest_size=_DIGEST_BYTES).digest()
    return b"/" + binascii.b2a_base64(digest, newline=False)


@dataclass(frozen=True, slots=True)
class KindScores:
    """How probable each kind is for a message that is not spam.

    ``probabilities`` are those of the kinds that have learned enough, and sum to 1; the most probable is the
    first. ``clues`` are the tokens that voted for and against each of these, the strongest first, with their
    log-ratios in nats. ``missing`` is how many messages each of the other kinds still has to learn.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)
    clues: Mapping[str, Sequence[Clue]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str | None:
        """The most probable kind; None while fewer than two kinds have learned enough."""
        return next(iter(self.probabilities), None)


class KindClassifier:
    """Says of which of ``kinds`` a message is; ``PLAIN`` is one of them."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = (PLAIN, *(kind for kind in kinds if kind != PLAIN))

    def count_names(self, tokens: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the names whose counts ``score`` needs for a message with these distinct tokens."""
        digests = (_MESSAGES, _TOKENS, *map(_digest, tokens))
        prefixes = [SUM_PREFIX + kind.encode() for kind in self.kinds[1:]]
        return (*tokens, *(prefix + end for prefix in prefixes for end in digests))

    def score(self, tokens: Tokens, rows: NDArray[np.int64], totals: Totals) -> KindScores:
        """Return the probability of each kind.

        ``rows`` are the counts of ``count_names(tokens.all)``, shape (names, classes).

        The score of a kind is the sum over the tokens that vote of ln P(token | kind), less the mean of that
        over the kinds; P(token | kind) is smoothed as in ``token_log_ratios``. Tokens that no kind has seen do
        not vote.
        """
        messages, weights, counts = self._kind_counts(len(tokens.all), rows[:, HAM], totals)
        missing = {
            kind: math.ceil(MIN_MESSAGES - n)
            for kind, n in zip(self.kinds, messages, strict=True)
            if n < MIN_MESSAGES
        }
        ready = [i for i, kind in enumerate(self.kinds) if kind not in missing]
        if len(ready) < 2:
            return KindScores(missing=missing)
        pseudo = _ALPHA * max(totals.vocabulary_size, 1)
        seen = np.flatnonzero(counts[ready].max(axis=0) > 0).tolist()
        shares = (counts[ready][:, seen] / WEIGHT_ONE + _ALPHA) / (
            weights[ready, np.newaxis] / WEIGHT_ONE + pseudo
        )
        log_shares = elementwise(math.log, shares)
        ratios = log_shares - log_shares.sum(axis=0) / len(ready)
        strongest = _strongest(np.abs(ratios).max(axis=0), tokens.all.at(seen))
        scores = [math.fsum(ratios[row, strongest].tolist()) / _TEMPERATURE for row in range(len(ready))]
        odds = [math.exp(score - max(scores)) for score in scores]
        total = math.fsum(odds)
        names = [self.kinds[i] for i in ready]
        order = sorted(range(len(ready)), key=lambda row: (-scores[row], names[row]))
        return KindScores(
            {names[row]: odds[row] / total for row in order},
            {names[row]: _clues(tokens, seen, ratios[row], strongest) for row in order},
            missing,
        )

    def _kind_counts(
        self, size: int, ham: NDArray[np.int64], totals: Totals
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the messages, the weight of all tokens, and the count of each token, of each kind."""
        sums = ham[size:].reshape(len(self.kinds) - 1, 2 + size)
        weights = np.concatenate([[totals.token_weights[HAM] - sums[:, 1].sum()], sums[:, 1]])
        messages = sums[:, 0] / WEIGHT_ONE
        messages = np.concatenate([[totals.messages[HAM] - messages.sum()], messages])
        counts = np.concatenate([[ham[:size] - sums[:, 2:].sum(axis=0)], sums[:, 2:]])
        return messages, np.maximum(weights, 0), np.maximum(counts, 0)


def _strongest(strengths: NDArray[np.float64], tokens: Sequence[bytes]) -> list[int]:
    """Return the numbers of the strongest tokens, the strongest first; of equal ones the first by name."""
    candidates: Sequence[int] = range(len(tokens))
    if len(tokens) > _MAX_CLUES:
        weakest = np.partition(strengths, -_MAX_CLUES)[-_MAX_CLUES]
        candidates = np.flatnonzero(strengths >= weakest).tolist()
    return sorted(candidates, key=lambda i: (-strengths[i], tokens[i]))[:_MAX_CLUES]


def _clues(
    tokens: Tokens, seen: Sequence[int], ratios: NDArray[np.float64], voting: Sequence[int]
) -> tuple[Clue, ...]:
    words = tokens.shown.at([seen[i] for i in voting])
    votes = [Clue(word, float(ratios[i])) for word, i in zip(words, voting, strict=True)]
    return tuple(sorted(votes, key=lambda clue: (-abs(clue.log_ratio), clue.token)))
