"""The view teaching: what was learned, who taught it, and what is worth a look.

Rules: all of it comes from the last changes of the history, which each process reads on from where it was; the
numbers are computed in a thread, and the suspects again only when there is a new change.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from nbstream.filter.suspects import describe_suspects
from nbstream.mail.visible_text import visible_text
from nbstream.policy.verdict import Verdict
from nbstream.server.moments import parse_moment
from nbstream.store.model.history import UNDO_SOURCE, HistoryChange, HistorySelection, is_stream_id
from nbstream.web.requests import Answer, Page, PageRefused, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from nbstream.filter.suspects import Suspect
    from nbstream.policy.verdict import ModelState
    from nbstream.store.model.history import RecentChanges
    from nbstream.web.admin.messages_view import FindRows


# Which changes of the history somebody wants to see or to take back: the fields of a form.

MILLISECOND = 0.001
"""The precision of the times of the history, in seconds."""

_MAX_LENGTH = 200


def form_time(at: float) -> str:
    """Return a time, in seconds since the epoch, as a field of the form has it."""
    return datetime.fromtimestamp(at).astimezone().isoformat()


@dataclass(frozen=True, slots=True)
class ChangeSelection:
    """The fields as they were written; an empty one selects any."""

    since: str = ""
    until: str = ""
    actor: str = ""
    source: str = ""
    label: str = ""
    id: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> ChangeSelection:
        """Return what is in the fields of a form or of a query."""
        names = cls.__dataclass_fields__
        return cls(**{name: fields[name].strip()[:_MAX_LENGTH].strip() for name in names if name in fields})

    def of_history(self, now: float) -> HistorySelection:
        """Return the selection; ages count from ``now``. Raises ``PageRefused`` for a wrong one."""
        try:
            since = parse_moment(self.since, now) if self.since else 0.0
            until = parse_moment(self.until, now) if self.until else None
        except ValueError as error:
            raise PageRefused(400, visible_text(str(error))) from error  # it has what was written
        return HistorySelection(
            since,
            until,
            actor=self.actor or None,
            label=self.label or None,
            message_key=self.id or None,
            source=self.source or None,
        )

    def query(self, **others: str) -> str:
        """Return the fields that are not empty, and ``others``, as the query of a link."""
        return urlencode({name: value for name, value in (asdict(self) | others).items() if value})


# What the last changes of the history come to: who taught how much, and what is worth a look.
#
# Rules: pure. What an undo wrote counts as taken back, whatever it put back.

MAX_LISTED = 20
"""So many teachers and suspects are listed at most."""

MAX_CHECKED = 200
"""So many of the messages that were taught last are looked at for a wrong label, for a millisecond each."""

_CONFIRMING = {
    "ham": frozenset({str(Verdict.HAM), str(Verdict.UNSURE)}),
    "spam": frozenset({str(Verdict.SPAM), str(Verdict.REJECT), str(Verdict.UNSURE)}),
}


@dataclass(slots=True)
class Teacher:
    """Who taught how much: by class, taken back, and against the verdict that the message had before."""

    source: str
    actor: str
    last_at: float
    learned: Counter[str] = field(default_factory=Counter)
    taken_back: int = 0
    contradicting: int = 0

    @property
    def changes(self) -> int:
        """All changes of this teacher."""
        return self.learned.total() + self.taken_back


class TeachingSummary(NamedTuple):
    """What the last changes come to.

    ``teachers`` begins with who taught most. ``taught`` has the newest lesson of each message taught last.
    """

    teachers: Sequence[Teacher]
    taught: Mapping[str, HistoryChange]


def taught_label(change: HistoryChange) -> str | None:
    """Return the label that somebody taught with this change; None where it took something back."""
    return None if change.note.source == UNDO_SOURCE else change.label


def contradicts_verdict(change: HistoryChange) -> bool:
    """Return whether a label was taught that is the opposite of the verdict before; unsure has no opposite."""
    label = taught_label(change)
    return label is not None and change.note.before.verdict not in _CONFIRMING.get(label, frozenset())


def summarize_teaching(changes: Sequence[HistoryChange]) -> TeachingSummary:
    """Return the summary of ``changes``, newest first."""
    return TeachingSummary(
        sorted(_teachers(changes), key=lambda teacher: -teacher.changes),
        {
            change.message_key: change
            for change in islice(filter(taught_label, newest_by_message(changes)), MAX_CHECKED)
        },
    )


def newest_by_message(changes: Iterable[HistoryChange]) -> Iterator[HistoryChange]:
    """Yield the newest change of each message, newest first: what is in force, or took something back."""
    seen: set[str] = set()
    for change in changes:
        if change.message_key not in seen:
            seen.add(change.message_key)
            yield change


def _teachers(changes: Iterable[HistoryChange]) -> Iterable[Teacher]:
    teachers: dict[tuple[str, str], Teacher] = {}
    for change in changes:  # newest first: a teacher begins with their last one
        source, actor = change.note.source, change.note.actor
        teacher = teachers.setdefault((source, actor), Teacher(source, actor, change.at))
        label = taught_label(change)
        if label is None:
            teacher.taken_back += 1
        else:
            teacher.learned[label] += 1
            teacher.contradicting += contradicts_verdict(change)
    return teachers.values()


def page_of_changes(
    changes: Iterable[HistoryChange], before: bytes | None, count: int
) -> tuple[Sequence[HistoryChange], bytes | None]:
    """Return the next ``count`` of some changes, newest first, that come before the stream id ``before``.

    ``before`` is None for the first page. The second value is the stream id to go on from, None at the end.
    """
    limit = _order(before) if before is not None else None
    older = (change for change in changes if limit is None or _order(change.id) < limit)
    page = list(islice(older, count + 1))
    return page[:count], page[count - 1].id if len(page) > count else None


def _order(stream_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = stream_id.partition(b"-")
    return int(milliseconds), int(number)


_PAGE = 50


class TeachingView(View):
    """Shows the last changes of the history.

    ``model_state`` returns None before the counts are loaded, and ``autolearned`` how many messages of each class
    were learned without people, None where none are. ``find_suspects`` returns those of some messages by their ids
    whose label may be wrong, and raises ``StoreUnavailable``. ``class_names`` returns the classes that can be
    taught, and ``learned_by_class`` how many messages each has learned, where ham is of several kinds.
    """

    navigation = ("/ui/teaching", "Teaching")

    def __init__(  # noqa: PLR0913 - each is named where it is given
        self,
        changes: RecentChanges,
        *,
        model_state: Callable[[], ModelState | None],
        autolearned: Callable[[], Mapping[str, int] | None],
        find_rows: FindRows,
        find_suspects: Callable[[Iterable[str]], Awaitable[Sequence[Suspect]]],
        class_names: Callable[[], Sequence[str]],
        learned_by_class: Callable[[], Awaitable[Mapping[str, int]]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._changes = changes
        self._model_state = model_state
        self._autolearned = autolearned
        self._find_rows = find_rows
        self._find_suspects = find_suspects
        self._class_names = class_names
        self._learned_by_class = learned_by_class
        self._clock = clock
        self._suspects: tuple[object, Sequence[Suspect]] | None = None
        self._one_at_a_time = asyncio.Lock()

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""
        return (PageRoute("GET", "/ui/teaching", self._show),)

    async def _show(self, request: PageRequest) -> Answer:
        wanted = ChangeSelection.from_fields(request.query)
        selection, problem = _read_selection(wanted, self._clock())
        before = request.query.get("before", "").encode()
        if before and not is_stream_id(before):
            raise PageRefused(400, "There is no such page of the list.")
        changes = await self._changes.read()
        summary = await asyncio.to_thread(summarize_teaching, changes)
        suspects = await self._look_at_labels(summary)
        selected = [change for change in changes if selection and change in selection]
        page, rest = page_of_changes(selected, before or None, _PAGE)
        listed = {change.message_key for change in page}
        listed |= {suspect.message_key for suspect in suspects[:MAX_LISTED]}
        return Page(
            "admin/teaching.html",
            {
                "rows": await self._find_rows(listed),
                "wanted": wanted,
                "problem": problem,
                "page": page,
                "undo_query": _undo_query(wanted, selected),
                "next_query": wanted.query(before=rest.decode()) if rest else "",
                "is_first": not before,
                "is_cut": len(changes) >= self._changes.limit,
                "count": len(changes),
                "since": changes[-1].at if changes else None,
                "summary": summary,
                "suspects": suspects,
                "suspects_described": describe_suspects(suspects, "taught as"),
                "class_names": self._class_names(),
                "by_class": await self._learned_by_class(),
                "max_listed": MAX_LISTED,
                "state": self._model_state(),
                "autolearned": self._autolearned(),
            },
            status=400 if problem else 200,
        )

    async def _look_at_labels(self, summary: TeachingSummary) -> Sequence[Suspect]:
        """Return the suspects among the messages that were taught last, the most doubtful first.

        They are looked at again when something else was taught.
        """
        basis = {key: change.id for key, change in summary.taught.items()}
        async with self._one_at_a_time:
            if self._suspects is None or self._suspects[0] != basis:
                suspects = await self._find_suspects(summary.taught)
                self._suspects = basis, sorted(suspects, key=lambda suspect: -suspect.doubt)
            return self._suspects[1]


def _read_selection(wanted: ChangeSelection, now: float) -> tuple[HistorySelection | None, str]:
    """Return what the form selects, or None and what is wrong with the form."""
    try:
        return wanted.of_history(now), ""
    except PageRefused as refused:
        return None, refused.text


def _undo_query(wanted: ChangeSelection, selected: Sequence[HistoryChange]) -> str:
    """Return the query of the view undo for all that is selected; an undo wants a time that it begins with."""
    if selected and not wanted.since and not wanted.id:
        wanted = replace(wanted, since=form_time(selected[-1].at))
    return wanted.query()
