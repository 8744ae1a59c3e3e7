"""The view of one message: what the filter thought and thinks of it, why, and who taught what; it can be taught.

Rules: a lesson has the source ``page``, and whoever has logged in as its actor. It goes the way of the lessons of
all listeners, and may be sent twice: an ordinary one never reinforces, and reinforcing names the ledger entry that
is meant. Of quarantined mail the header and the text are shown as text. All of it was written by others.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.errors import InputError, StoreUnavailable
from nbstream.filter import FeedbackOutcome
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.verdict import contradicts_label
from nbstream.server.api_json import is_message_id
from nbstream.server.http.responses import error_problem
from nbstream.server.message_service import REQUEST_ERRORS
from nbstream.tokens.origins import token_origin
from nbstream.tokens.private_tokens import are_private
from nbstream.tokens.tokens import Tokens
from nbstream.web.admin.drawings import draw_explanation
from nbstream.web.admin.lesson_sentences import describe_lesson
from nbstream.web.admin.messages_view import rows_of_results
from nbstream.web.areas import PREFIX
from nbstream.web.forms import read_selected_ids
from nbstream.web.quarantine import MailOutcome, MailResult, readable_quarantine
from nbstream.web.rendering import format_probability
from nbstream.web.requests import Page, PageRefused, PageRoute, Redirect, View

if TYPE_CHECKING:
    from nbstream.delivery.quarantine import QuarantineNote
    from nbstream.filter import FeedbackResult, LessonMessage
    from nbstream.filter.filter import MessageRecord
    from nbstream.policy.check import Explanation
    from nbstream.server.message_service import MessageHandler
    from nbstream.server.quarantine_release import ShownText
    from nbstream.store.model.history import HistoryRecord
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.recent.message_rows import MessageRow
    from nbstream.web.admin.messages_view import FindRows
    from nbstream.web.quarantine import QuarantinedMail, WebQuarantine
    from nbstream.web.requests import Answer, PageRequest


PAGE_SOURCE = "page"
"""The source of the lessons that people give on the page, in logs, metrics and the history."""

_LESSONS_SECONDS = 30.0  # no lesson of many begins later than this after the first one: a browser waits
_UNLEARN, _REINFORCE = "unlearn", "reinforce-"
_GROUPS = ("header and structure", "text and links", "header as written")  # in the order of Tokens.groups

_UNKNOWN = "There is no message with this id, or it is not remembered any more."
_UNKNOWN_ACTION = "Nothing was changed: a message has no such action."


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageLookups:
    """Where the view finds what it shows of a message, by its id; all raise ``StoreUnavailable``.

    ``history`` gets the ledger entry too, and returns records with the newest first. ``probability_curve`` returns
    the calibration of now. ``policy_labels`` returns how the policies of the rules are shown, by their names.
    ``class_names`` returns the classes that can be taught now.
    """

    record: Callable[[str], Awaitable[MessageRecord | None]]
    ledger_entry: Callable[[str], Awaitable[LedgerEntry | None]]
    history: Callable[[str, LedgerEntry | None], Awaitable[Sequence[HistoryRecord]]]
    rows: FindRows
    policy_labels: Callable[[], Mapping[str, str]]
    class_names: Callable[[], Sequence[str]]


class MessageView(View):
    """``/ui/messages/{id}``, and the lessons of a list.

    ``message_handler`` makes what teaches as is configured now.
    """

    def __init__(
        self,
        lookups: MessageLookups,
        quarantine: WebQuarantine,
        message_handler: Callable[[], MessageHandler],
    ) -> None:
        self._lookups = lookups
        self._quarantine = quarantine
        self._message_handler = message_handler

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return (
            PageRoute("GET", "/ui/messages/{id}", self._show),
            PageRoute("POST", "/ui/messages/{id}", self._change),
            PageRoute("POST", "/ui/messages", self._teach_many),
        )

    async def _show(self, request: PageRequest) -> Answer:
        message_id = _read_id(request)
        record = await self._lookups.record(message_id)
        mail = await self._find_quarantined(message_id)
        entry = record.entry if record else None
        history = await self._lookups.history(message_id, entry)
        if record is None and mail is None and not history:
            raise PageRefused(404, _UNKNOWN)
        row = (await self._lookups.rows([message_id])).get(message_id)
        notes, text = await self._show_quarantined(mail) if mail else ((), None)
        values: dict[str, object] = {
            "id": message_id,
            "record": record,
            "entry": entry,
            "class_names": self._lookups.class_names(),
            "autolearned_label": record.automatic_label if record else None,
            "contradicted": bool(record and entry and _is_contradicted(record.explanation_now, entry)),
            "subject": _subject(row, text),
            "envelope": row.envelope if row else None,
            "outcome": row.outcome if row else None,
            "history": history,
            "mail": mail,
            "policy_labels": self._lookups.policy_labels(),
            "notes": notes,
            "text": text,
            "explanation": None,
        }
        if record:
            values |= _explain(record)
        return Page("admin/message.html", values)

    def _lessons(self) -> Sequence[str]:
        """Return the actions that teach a message, or take back what it was taught as."""
        return (*self._lookups.class_names(), _UNLEARN)

    async def _find_quarantined(self, message_id: str) -> QuarantinedMail | None:
        with suppress(InputError):  # the view of the quarantine says why
            return await self._quarantine.find(None, message_id)
        return None

    async def _show_quarantined(self, mail: QuarantinedMail) -> tuple[Sequence[QuarantineNote], ShownText | None]:
        with suppress(InputError):  # released or removed just now, or damaged: the view of the quarantine says so
            return await self._quarantine.show(mail)
        return (), None

    async def _change(self, request: PageRequest) -> Answer:
        message_id, action = _read_id(request), request.form_value("action")
        if action == "release":
            return Redirect(_path(message_id), await self._release(message_id, request))
        lesson: FeedbackResult | None
        if action in self._lessons():
            lesson = await self._learn(message_id, _label_of_action(action), request)
        elif (
            action.startswith(_REINFORCE)
            and (label := action.removeprefix(_REINFORCE)) in self._lookups.class_names()
        ):
            lesson = await self._reinforce(message_id, label, request)
        else:
            raise PageRefused(400, _UNKNOWN_ACTION)
        described = (
            describe_lesson(lesson)
            if lesson
            else ("Nothing was changed: somebody has taught this message meanwhile. Look at it again.")
        )
        return Redirect(PREFIX if request.form_value("then") == "now" else _path(message_id), described)

    async def _teach_many(self, request: PageRequest) -> Answer:
        """Teach the messages that were selected in a list; each has a result of its own."""
        ids = read_selected_ids(request)
        action = request.form_value("action")
        if action not in self._lessons():
            raise PageRefused(400, _UNKNOWN_ACTION)
        results = dict.fromkeys(ids, "Not tried: it took too long, or Redis went away. Do it once more.")
        until = time.monotonic() + _LESSONS_SECONDS
        for message_id in ids:
            if time.monotonic() >= until:
                break
            try:
                results[message_id] = describe_lesson(
                    await self._learn(message_id, _label_of_action(action), request)
                )
            except PageRefused as refused:
                results[message_id] = refused.text
            except REQUEST_ERRORS as error:
                results[message_id] = error_problem(error).detail
                if isinstance(error, StoreUnavailable):
                    break
        values = {"results": results, "rows": await rows_of_results(self._lookups.rows, ids)}
        return Page("admin/lesson_results.html", values)

    async def _reinforce(self, message_id: str, label: str, request: PageRequest) -> FeedbackResult | None:
        """Reinforce the label, unless the message was taught since the form was made: then return None.

        A form that is sent twice, to whichever worker, reinforces once: the second one finds another ledger entry.
        """
        version = request.form_value("version")
        lesson = await self._learn(message_id, label, request, version)
        if lesson.outcome is FeedbackOutcome.REINFORCED:
            return lesson
        entry = await self._lookups.ledger_entry(message_id)
        return lesson if entry and (entry.column, entry.version) == (label, version) else None

    async def _learn(
        self, message_id: str, label: str | None, request: PageRequest, reinforced_version: str | None = None
    ) -> FeedbackResult:
        """Learn the label, or reinforce it where ``reinforced_version`` names the ledger entry that has it."""
        handler = self._message_handler()
        message = await self._message_to_learn(message_id, handler)
        reinforcement = Reinforcement.NEVER if reinforced_version is None else Reinforcement.AT_ONCE
        return await handler.learn(message, label, request.session.name, reinforcement, reinforced_version)

    async def _message_to_learn(self, message_id: str, handler: MessageHandler) -> LessonMessage:
        """Return what is remembered of the message, or else the message itself if it is quarantined."""
        checked = await handler.runtime.spam_filter.recall(message_id)
        if checked:
            return checked
        with readable_quarantine():
            mail = await self._quarantine.find(None, message_id)
            if mail:
                return await self._quarantine.message(mail)
        raise PageRefused(
            404,
            (
                "Nothing was changed: too little of this message is remembered to learn it. Teach the message "
                "itself, by mail or with nbstream learn."
            ),
        )

    async def _release(self, message_id: str, request: PageRequest) -> str:
        """Release the message, and return what became of it."""
        with readable_quarantine():
            mail = await self._quarantine.find(None, message_id)
        result = MailResult(message_id, MailOutcome.GONE)
        if mail:
            again = request.form_value("again") == "yes"
            result = await self._quarantine.release(None, mail, request.session.name, again=again)
        return result.text if result.outcome is MailOutcome.DONE else f"Not released: {result.text}"


def _label_of_action(action: str) -> str | None:
    return None if action == _UNLEARN else action


def _read_id(request: PageRequest) -> str:
    if not is_message_id(request.path_id):
        raise PageRefused(404, _UNKNOWN)
    return request.path_id


def _subject(row: MessageRow | None, text: ShownText | None) -> str | None:
    """Return the subject of the message; None where it has none, or nobody knows it."""
    if row and row.envelope:
        return row.envelope.subject
    return next((value for name, value in text.fields if name == "Subject"), None) if text else None


def _path(message_id: str) -> str:
    return f"/ui/messages/{message_id}"


def _is_contradicted(now: Explanation, entry: LedgerEntry) -> bool:
    return contradicts_label(entry.label, now.probability, now.thresholds, now.state)


def _explain(record: MessageRecord) -> dict[str, object]:
    """Return what the template says of the check, or of now where no check is remembered.

    ``now`` is what the model says now, where that is something else.
    """
    shown, now = record.explanation_at_check or record.explanation_now, record.explanation_now
    return {
        "explanation": shown,
        "now": now if _result(now) != _result(shown) else None,
        "chart": draw_explanation(shown),
        "rows": _clue_rows(shown, _groups_by_token(record)),
        "are_private": are_private(clue.token for clue in shown.clues if clue.ham is not None),
    }


def _result(explanation: Explanation) -> tuple[object, ...]:
    return explanation.verdict, explanation.reason, format_probability(explanation.probability)


def _clue_rows(explanation: Explanation, groups: Mapping[bytes, str]) -> Sequence[Mapping[str, object]]:
    """Return the clues, the strongest first, with their log-ratio in nats, and the messages that had them."""
    return [
        {
            "token": (name := clue.token.decode("utf-8", "replace")),
            "origin": token_origin(name),
            "group": groups.get(clue.token, ""),
            "weight": clue.log_ratio,
            "ham": None if clue.ham is None else clue.ham / WEIGHT_ONE,
            "spam": None if clue.spam is None else clue.spam / WEIGHT_ONE,
        }
        for clue in sorted(explanation.clues, key=lambda clue: (-abs(clue.log_ratio), clue.token))
    ]


def _groups_by_token(record: MessageRecord) -> dict[bytes, str]:
    """Return the name of the group of each token; the clues of other event models have none."""
    if record.checked:
        tokens = record.checked.tokens
    else:
        assert record.entry is not None  # one of the two is there
        tokens = Tokens.from_all(record.entry.tokens)
    return {token: name for name, group in zip(_GROUPS, tokens.groups, strict=True) for token in group}
