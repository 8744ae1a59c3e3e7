"""Two filters on the same mail: who called what spam, and who was wrong where people said what a message is.

Rules: pure. Both filters have judged the very same messages, so that errors are compared in pairs. A ham that a
filter calls spam is lost; a spam that it calls anything else has passed. A verdict of ours counts only if it is
older than the first label of its message: a filter that was shown the answer has to know it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.compare.fields import FilterVerdict
from nbstream.policy.budget import binomial_cumulative
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.compare.fields import OtherVerdict

CLASSES = ("ham", "spam")
_FAIR_SHARE = 0.9


def filter_verdict(verdict: str) -> FilterVerdict:
    """Return what a verdict of ours calls a message: a message that is refused was called spam."""
    return FilterVerdict.SPAM if Verdict(verdict).is_spam else FilterVerdict(verdict)


@dataclass(frozen=True, slots=True)
class JudgedMessage:
    """A message that both filters have judged; ``ours`` was checked at ``checked_at``, seconds since the epoch.

    ``label`` is what people say it is, None where nobody has said. ``is_drawn``: the fair sample drew it.
    """

    id: str
    checked_at: float
    ours: FilterVerdict
    probability: float
    other: OtherVerdict
    label: str | None = None
    is_drawn: bool = False
    subject: str | None = None

    @property
    def is_our_error(self) -> bool:
        """Whether people have said that our verdict is wrong."""
        return _is_error(self.ours, self.label)

    @property
    def is_other_error(self) -> bool:
        """Whether people have said that the verdict of the other filter is wrong."""
        return _is_error(self.other.verdict, self.label)


def _is_error(verdict: FilterVerdict, label: str | None) -> bool:
    return label is not None and (verdict is FilterVerdict.SPAM) is (label == "ham")


@dataclass(frozen=True, slots=True)
class PairedErrors:
    """The errors of two filters on the same ``messages`` of one class: of both at once, and of one alone."""

    messages: int
    both: int
    only_ours: int
    only_other: int

    @property
    def ours(self) -> int:
        """All errors of ours."""
        return self.both + self.only_ours

    @property
    def other(self) -> int:
        """All errors of the other filter."""
        return self.both + self.only_other

    @property
    def p_value(self) -> float:
        """The probability of so uneven a split, or a more uneven one, if both were equally good.

        It is the exact test of McNemar ("Note on the sampling error of the difference between correlated
        proportions", 1947): of the messages that one filter alone has wrong, each is as likely to be ours.
        """
        alone = self.only_ours + self.only_other
        return min(1.0, 2 * float(binomial_cumulative(alone, 0.5, min(self.only_ours, self.only_other))[-1]))


def count_errors(messages: Iterable[JudgedMessage]) -> Mapping[str, PairedErrors]:
    """Return the errors on the labelled ones of these messages, for ham and for spam."""
    counts = Counter((message.label, message.is_our_error, message.is_other_error) for message in messages)
    return {
        label: PairedErrors(
            sum(count for (of, _, _), count in counts.items() if of == label),
            counts[label, True, True],
            counts[label, True, False],
            counts[label, False, True],
        )
        for label in CLASSES
    }


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The checked messages that are not compared, by why."""

    without_verdict: int = 0
    unclear: int = 0
    learning: int = 0
    checked_after_label: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two filters on the same messages, the oldest first; ``other`` is the name of the other one.

    ``we_act``: mail is treated by our verdicts, and not by those of the other filter. ``is_cut``: there are older
    messages, which were not looked at.
    """

    other: str
    messages: Sequence[JudgedMessage]
    left_out: LeftOut = field(default_factory=LeftOut)
    we_act: bool = False
    is_cut: bool = False

    def count_pairs(self) -> Mapping[tuple[FilterVerdict, FilterVerdict], int]:
        """Return how often each verdict of ours, the first one, met each verdict of the other filter."""
        return Counter((message.ours, message.other.verdict) for message in self.messages)

    @property
    def labelled(self) -> Sequence[JudgedMessage]:
        """The messages of which people have said what they are."""
        return [message for message in self.messages if message.label is not None]

    @property
    def drawn(self) -> Sequence[JudgedMessage]:
        """The messages that the fair sample drew, with a label or without one."""
        return [message for message in self.messages if message.is_drawn]

    @property
    def fair_labels(self) -> Sequence[JudgedMessage]:
        """The labelled messages of the fair sample, none where much of it waits for an answer.

        What people correct by themselves is in the sample too. As long as hardly anybody has answered, its labels
        are those corrections, and as unfair.
        """
        labelled = [message for message in self.drawn if message.label is not None]
        return labelled if len(labelled) >= _FAIR_SHARE * len(self.drawn) else ()

    @property
    def corrections(self) -> int:
        """How many labels outside the fair sample say that the filter that acts was wrong."""
        return sum(
            message.is_our_error if self.we_act else message.is_other_error
            for message in self.messages
            if not message.is_drawn
        )

    @property
    def differing(self) -> Sequence[JudgedMessage]:
        """The messages that one of the two called spam: ham, then spam, then those without a label.

        Of each the newest come first.
        """
        differing = [
            m
            for m in self.messages
            if (m.ours is FilterVerdict.SPAM) is not (m.other.verdict is FilterVerdict.SPAM)
        ]
        order = {"ham": 0, "spam": 1, None: 2}
        return sorted(differing, key=lambda message: (order[message.label], -message.checked_at))

    def by_day(self, day_of: Callable[[float], str]) -> Mapping[str, Mapping[str, PairedErrors]]:
        """Return the errors of each day on which messages were checked; ``day_of`` names the day of a moment."""
        days: dict[str, list[JudgedMessage]] = {}
        for message in self.messages:
            days.setdefault(day_of(message.checked_at), []).append(message)
        return {day: count_errors(messages) for day, messages in days.items()}
