"""A run over a labelled stream, test then train: each message is scored before its label is learned.

Rules: the filter is the one of the daemon, and a message reaches it like mail, without verdict headers from
outside. A row of the result says what was known before the label, and contains the true label even if a flipped
one was learned.

The verdict of another filter is read from a header field that it wrote into stored mail. A sender can write such a
field too. Therefore all copies of it have to agree: a message whose copies contradict each other has no verdict.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from nbstream.evaluation import regimes
from nbstream.filter import FeedbackOutcome, TokenizedMessage
from nbstream.filter.lesson_plan import CountedCheck, Feedback, LessonPlanner
from nbstream.filter.message_counts import count_names
from nbstream.mail import header_fields
from nbstream.mail.addresses import parse_address, read_from
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.policy.verdict import Thresholds, Verdict
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nbstream.evaluation.streams import LabelledContent
    from nbstream.filter import Autolearner, Check, FeedbackResult, Filter, ImplicitHamLearner
    from nbstream.policy.header import MessageReader
    from nbstream.policy.verdict import Verdict


_SOURCE = "evaluate"
_OPPOSITES = {"ham": "spam", "spam": "ham"}


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The name of the regime, the share of labels to flip before they are learned, and the seed of all draws.

    Every label of the first ``taught`` messages is learned at once, whatever the regime is. ``other_field`` is the
    name of the header field with the verdict of another filter, empty where none is to be read.
    """

    regime: str = "immediate"
    label_noise: float = 0.0
    seed: int = 0
    taught: int = 0
    other_field: str = ""

    @property
    def taught_messages(self) -> int:
        """How many messages are taught with all their labels: ``taught``, or N of the regime ``first:N``."""
        return regimes.count_taught(self.regime, self.taught)


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One message: its true label, and the result of its check before the label was learned.

    ``name`` says where the message is, as in ``LabelledContent``. ``other_verdict`` is what another filter says,
    None where it says nothing. ``is_first_contact``: it is the first ham of its sender domain in the stream.
    """

    label: str
    score: float
    probability: float
    verdict: Verdict
    thresholds: Thresholds = field(default_factory=Thresholds)
    message_key: str = ""
    name: str = ""
    other_verdict: Verdict | None = None
    is_first_contact: bool = False


@dataclass(slots=True)
class LabelCounts:
    """How many of the labels that were given after the taught messages were of these kinds.

    ``corrections``: the message lay in the wrong folder. ``contradictions``: the label was on the other side of
    ``unsure`` than the check, and changed the model. ``believed``: the contradictions after which the same message
    was on the label's side. ``believed_twice``: those, and the ones after which it would be there if the person
    reinforced the label, which nobody does in a run.
    """

    corrections: int = 0
    contradictions: int = 0
    believed: int = 0
    believed_twice: int = 0

    @property
    def believed_percent(self) -> float | None:
        """``believed`` in percent of ``contradictions``; None where there was none."""
        return 100.0 * self.believed / self.contradictions if self.contradictions else None

    @property
    def believed_twice_percent(self) -> float | None:
        """``believed_twice`` in percent of ``contradictions``; None where there was none."""
        return 100.0 * self.believed_twice / self.contradictions if self.contradictions else None

    def add(self, case: regimes.LabelledCheck, lesson: FeedbackResult, reinforced: Check) -> None:
        """Count one label, whose lesson was this; ``reinforced`` is the check that reinforcing would lead to."""
        self.corrections += case.is_misplaced
        if case.is_contradiction and lesson.outcome is not FeedbackOutcome.ALREADY:
            self.contradictions += 1
            self.believed += case.agrees_with(lesson.after)
            self.believed_twice += case.agrees_with(reinforced)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The rows in the order of the stream, and the seconds of checking and learning, without reading the stream.

    ``learned`` is the number of labels that changed the model, ``learned_tokens`` that of the distinct tokens of
    these messages. ``autolearned`` is the number of messages that were learned without a label.
    ``first_verdict`` is the number of the first message, counted from 1, before which enough was learned for a
    verdict; None where there was none.
    """

    rows: tuple[EvaluationRow, ...]
    seconds: float
    learned: int = 0
    learned_tokens: int = 0
    autolearned: int = 0
    labels: LabelCounts = field(default_factory=LabelCounts)
    first_verdict: int | None = None

    @property
    def tokens_per_message(self) -> float | None:
        """The mean number of distinct tokens of the learned messages; None if nothing was learned."""
        return self.learned_tokens / self.learned if self.learned else None


class CachingTokenizer(Tokenizer):
    """A tokenizer that remembers the tokens of a message as long as the message exists.

    A run needs the tokens of each message twice, for the check and for the lesson.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.options)
        self._tokenizer = tokenizer
        self._cache: WeakKeyDictionary[Message, TokenizedMessage] = WeakKeyDictionary()

    def tokenize(self, message: Message) -> TokenizedMessage:
        """Return the key and the tokens of ``message``."""
        taken = self._cache.get(message)
        if taken is None:
            taken = self._cache[message] = self._tokenizer.tokenize(message)
        return taken


class Inbox:
    """The messages of a run that may become implicit ham.

    A message is kept when ``kept_after`` other messages have come; with None, or without ``learner``, none is.
    """

    def __init__(self, tokenizer: Tokenizer, learner: ImplicitHamLearner | None, kept_after: int | None) -> None:
        self._tokenizer = tokenizer
        self._learner = None if kept_after is None else learner
        self._kept_after = kept_after or 0
        self._waiting: deque[CheckedMessage] = deque()

    async def add(self, message: Message, check: Check) -> int:
        """Add a message that was checked, and return how many were learned that are kept now."""
        if self._learner is None:
            return 0
        tokens = self._tokenizer.tokenize(message).tokens
        self._waiting.append(CheckedMessage(check.id, tokens, check.probability, str(check.verdict)))
        if len(self._waiting) <= self._kept_after:
            return 0
        return int(await self._learner.learn(self._waiting.popleft()))


async def evaluate(
    spam_filter: Filter,
    stream: Iterable[LabelledContent],
    options: EvaluationOptions,
    reader: MessageReader,
    autolearner: Autolearner | None = None,
    implicit_ham: ImplicitHamLearner | None = None,
) -> EvaluationResult:
    """Check and learn the messages of ``stream``, and return the rows; raises the errors of filter and stream.

    ``autolearner`` is an observer of the filter. It learns a message after the label of a person, if there is one.
    In a daemon it may come first; the result is the same, because a person's label replaces an automatic one.
    ``implicit_ham`` learns what the regime counts as kept.
    """
    regime = regimes.parse_regime(options.regime, options.taught)
    generator = random.Random(options.seed)  # noqa: S311 - no secret
    habits = random.Random(f"habits {options.seed}")  # noqa: S311 - other numbers than those that flip labels
    rows: list[EvaluationRow] = []
    inbox = Inbox(spam_filter.parts.tokenizer, implicit_ham, regimes.messages_until_kept(options.regime))
    seconds, learned, learned_tokens, autolearned, labels = 0.0, 0, 0, 0, LabelCounts()
    first_verdict, known_domains = None, set[str]()
    for position, labelled in enumerate(stream, start=1):
        # A number is drawn for every message, learned or not, so that the same labels are flipped in every regime.
        flipped = generator.random() < options.label_noise
        label = _OPPOSITES[labelled.label] if flipped else labelled.label
        draw = habits.random()
        started = time.perf_counter()
        message = _parse_message(labelled.content, reader)
        check = await spam_filter.check(message)
        if first_verdict is None and not check.state.is_learning:
            first_verdict = position
        for case in regime(regimes.LabelledCheck(message, label, check, position, draw)):
            lesson = await spam_filter.learn(case.message, case.label, _SOURCE)
            if lesson.outcome is not FeedbackOutcome.ALREADY:
                learned += 1
                learned_tokens += len(spam_filter.parts.tokenizer.tokenize(case.message).tokens.all)
            if case.position > options.taught_messages:
                seconds += time.perf_counter() - started
                labels.add(case, lesson, await _check_if_reinforced(spam_filter, case, lesson))
                started = time.perf_counter()  # nobody reinforces in a run, so that is no part of its work
        if autolearner:
            autolearned += await autolearner.learn_queued()
        autolearned += await inbox.add(message, check)
        seconds += time.perf_counter() - started
        domain = _sender_domain(message) if labelled.label == "ham" else ""
        rows.append(
            EvaluationRow(
                labelled.label,
                check.score,
                check.probability,
                check.verdict,
                check.thresholds,
                message_key=check.id,
                name=labelled.name,
                other_verdict=_other_verdict(labelled.content, options.other_field),
                is_first_contact=bool(domain) and domain not in known_domains,
            )
        )
        known_domains.add(domain)
        await asyncio.sleep(0)  # with counts in memory nothing else waits, and Ctrl-C could not interrupt the run
    return EvaluationResult(tuple(rows), seconds, learned, learned_tokens, autolearned, labels, first_verdict)


async def _check_if_reinforced(spam_filter: Filter, case: regimes.LabelledCheck, lesson: FeedbackResult) -> Check:
    """Return the check after ``lesson``, or the one that reinforcing its label would lead to.

    Nothing is learned by it.
    """
    parts = spam_filter.parts
    entry = await parts.model.entry(lesson.after.id)
    if entry is None or not lesson.after.contradicts(case.label):
        return lesson.after
    scorer = parts.make_scorer(spam_filter.policy)
    message = TokenizedMessage(lesson.after.id, parts.tokenizer.tokenize(case.message).tokens)
    counts = await scorer.read_counts(count_names(message.tokens, entry))
    planned = LessonPlanner(scorer, parts.clock).plan_reinforced(
        Feedback(message, entry.column, FeedbackSource(_SOURCE)), CountedCheck(lesson.after, counts), entry
    )
    return planned.after if planned else lesson.after


def _parse_message(content: bytes | str, reader: MessageReader) -> Message:
    if isinstance(content, str):
        return Message.from_text(content, reader.limits)
    return reader.read_incoming(content)


def _sender_domain(message: Message) -> str:
    """Return the domain of the first address in From; empty where there is none."""
    addresses, _ = read_from(message.fields)
    return parse_address(addresses[0])[1] if addresses else ""


def _other_verdict(content: bytes | str, field_name: str) -> Verdict | None:
    return read_verdict(content, field_name) if field_name and isinstance(content, bytes) else None


_WORDS = MappingProxyType(
    {
        **dict.fromkeys(("no", "false", "ham", "innocent", "whitelisted", "greylist", "soft"), Verdict.HAM),
        **dict.fromkeys(("yes", "true", "spam", "virus", "blacklisted", "add", "rewrite"), Verdict.SPAM),
        **dict.fromkeys(("quarantine", "discard", "reject"), Verdict.SPAM),
        "unsure": Verdict.UNSURE,
    }
)
"""What the first words of a value say, in lower case; "no action" and "add header" are actions of rspamd."""

_FIRST_WORD = re.compile(rb"\s*(?:[\w.-]+:\s*)?([A-Za-z]+)")  # X-Spamd-Result begins with "default: "


def read_verdict(raw: bytes, field_name: str) -> Verdict | None:
    """Return what the fields of this name say of a message: ham, unsure or spam, and None for no verdict."""
    message = normalize_line_ends(raw)
    fields = header_fields.parse_fields(message, header_fields.body_offset(message))
    values = [field.value for field in fields if field.name == field_name.lower()]
    verdicts = {_verdict_of(value) for value in values}
    return verdicts.pop() if len(verdicts) == 1 else None


def _verdict_of(value: bytes) -> Verdict | None:
    word = _FIRST_WORD.match(value)
    return _WORDS.get(word[1].decode("ascii").lower()) if word else None
