"""Whether the history of one message follows from what its teacher was told. Pure.

Rules: what was acknowledged as a change is one record, in the order of the acknowledgements. What was acknowledged
as no change is no record, and the message had that label then. An attempt without an answer is a record or none,
then or later, and at most as often as it may be tried. There are no other records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.soak.chaos.journal import ACKNOWLEDGEMENTS, Fault, FeedbackOutcome, LessonAttempt
from tests.soak.chaos.schedule import REPLY_LOSING_KINDS

Label = str | None
"""What a message is learned as; None is nothing."""


def explains(attempts: Sequence[LessonAttempt], records: Sequence[Label]) -> bool:
    """Return whether ``records``, the labels after each change, follow from the attempts.

    The attempts are in the order in which they were made, one after the other. All ways in which those without an
    answer may have been carried out are searched.
    """
    states = {_State(0, frozenset())}
    for attempt in attempts:
        states = {
            after for state in _with_late_records(states, records) for after in _after(state, attempt, records)
        }
    return any(state.records == len(records) for state in _with_late_records(states, records))


def counts_agree(attempts: Sequence[LessonAttempt], records: Sequence[Label], faults: Sequence[Fault]) -> bool:
    """Return whether there are as many records of each label as attempts say that were made at once.

    Each acknowledged change is a record, and each further record is of an attempt without an answer, or of one
    that was repeated. A daemon that gets no reply from Redis repeats the lesson. Where the first try was carried
    out, and another client has changed the message in between, the daemon takes the lesson for one that was not
    carried out yet: it makes it again, or answers that the message has this label already, where yet another
    client has given it. So an attempt without an answer may be two records, and one with an answer may be one
    record more than its answer says, if a fault fell into it by which its host may have missed a reply.
    """
    changed = Counter(attempt.label for attempt in attempts if attempt.outcome is FeedbackOutcome.CHANGED)
    unknown = Counter(attempt.label for attempt in attempts if attempt.outcome is FeedbackOutcome.UNKNOWN)
    repeated = Counter(
        attempt.label
        for attempt in attempts
        if attempt.outcome in ACKNOWLEDGEMENTS and _may_have_missed_reply(attempt, faults)
    )
    recorded = Counter(records)
    return all(
        changed[label] <= recorded[label] <= changed[label] + 2 * unknown[label] + repeated[label]
        for label in {*changed, *recorded}
    )


def _may_have_missed_reply(attempt: LessonAttempt, faults: Sequence[Fault]) -> bool:
    """Return whether a fault fell into the attempt by which its host may have missed a reply of Redis."""
    return any(
        fault.kind in REPLY_LOSING_KINDS
        and fault.target in {attempt.host, "redis"}
        and fault.begun <= attempt.ended
        and attempt.begun <= fault.ended
        for fault in faults
    )


class _State(tuple[int, frozenset[tuple[Label, int]]]):
    """So many records are explained, and so many attempts of each label may still be carried out."""

    __slots__ = ()

    def __new__(cls, records: int, open_attempts: frozenset[tuple[Label, int]]) -> _State:
        return super().__new__(cls, (records, open_attempts))

    @property
    def records(self) -> int:
        return self[0]

    def with_open(self, label: Label, count: int) -> _State:
        open_attempts = dict(self[1])
        open_attempts[label] = open_attempts.get(label, 0) + count
        return _State(self[0], frozenset((name, number) for name, number in open_attempts.items() if number))

    def next_record(self) -> _State:
        return _State(self[0] + 1, self[1])

    def may_be_late(self, label: Label) -> bool:
        return dict(self[1]).get(label, 0) > 0


def _with_late_records(states: set[_State], records: Sequence[Label]) -> set[_State]:
    """Return the states, and those in which attempts without an answer have been carried out meanwhile."""
    reached, waiting = set(states), list(states)
    while waiting:
        state = waiting.pop()
        if state.records < len(records) and state.may_be_late(records[state.records]):
            later = state.with_open(records[state.records], -1).next_record()
            if later not in reached:
                reached.add(later)
                waiting.append(later)
    return reached


def _after(state: _State, attempt: LessonAttempt, records: Sequence[Label]) -> set[_State]:
    """Return the states after an attempt; none where its answer contradicts the records."""
    has_label = (records[state.records - 1] if state.records else None) == attempt.label
    is_next = state.records < len(records) and records[state.records] == attempt.label
    if attempt.outcome is FeedbackOutcome.UNKNOWN:
        return {state.with_open(attempt.label, attempt.tries)}
    if attempt.outcome is FeedbackOutcome.NOT_SENT:
        return {state}
    after = set()
    if attempt.outcome in {FeedbackOutcome.SAME, FeedbackOutcome.DONE} and has_label:
        after.add(state)
    if attempt.outcome in {FeedbackOutcome.CHANGED, FeedbackOutcome.DONE} and is_next:
        after.add(state.next_record())
    # An entry of a stream may have been tried before the try that was answered.
    return {each.with_open(attempt.label, attempt.tries - 1) for each in after}
