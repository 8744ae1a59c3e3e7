"""rspamd's HTTP protocol as its clients speak it: what they send, and the bodies that they read.

Rules: pure; scores are ln(P / (1 - P)), so a threshold and a score can be compared; each message has one symbol
that names its verdict. Read in rspamc 3.4: a body is never empty, since that is an error for it, and a lesson that
changed nothing is 208 with an ``error``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import CLASSES
from nbstream.policy import verdict_fields
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.filter.results import Check, Lesson
    from nbstream.mail.message import Message
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.wire.api_v1 import ModelStatus

NO_ACTION, ADD_HEADER, REJECT = "no action", "add header", "reject"
_ACTIONS = {
    Verdict.HAM: NO_ACTION,
    Verdict.UNSURE: NO_ACTION,
    Verdict.SPAM: ADD_HEADER,
    Verdict.REJECT: REJECT,
}
_SYMBOLS = {
    Verdict.HAM: ("NBSTREAM_HAM", "ham"),
    Verdict.UNSURE: ("NBSTREAM_UNSURE", "not certain, or not learned enough"),
    Verdict.SPAM: ("NBSTREAM_SPAM", "spam"),
    Verdict.REJECT: ("NBSTREAM_SPAM", "spam"),
}
USER_FIELD = "User"
CLASS_FIELD = "Class"
RECIPIENT_FIELD = "Rcpt"
"""Once for each recipient."""
PASSWORD_FIELD = "Password"  # noqa: S105 - the name of a field
ENCODED_FIELDS = ("Compression", "Key")
"""Fields of a request whose body is not the message itself: it is compressed, or encrypted."""

ALREADY_LEARNED = 208


def action_of_verdict(verdict: Verdict) -> str:
    """What a client is asked to do."""
    return _ACTIONS[verdict]


def message_id_field(message: Message) -> str:
    """The message's Message-ID without angle brackets; ``undef`` where there is none, as rspamd says."""
    found = message.first_field("message-id")
    return (found.text.strip().strip("<>") if found else "") or "undef"


def check_to_json(found: Check, message_id: str, seconds: float, model: str) -> dict[str, Any]:
    """The answer to ``/checkv2``; ``message_id`` is the message's own, ``seconds`` what the check took."""
    score = verdict_fields.clamped_log_odds(found.probability)
    name, description = _SYMBOLS[found.verdict]
    symbol = {
        "name": name,
        "score": score,
        "metric_score": score,
        "description": description,
        "options": [f"probability={found.probability:.6f}", found.reason, f"id={found.id}"],
    }
    return {
        "is_skipped": False,
        "score": score,
        "required_score": verdict_fields.clamped_log_odds(found.thresholds.spam),
        "action": action_of_verdict(found.verdict),
        "thresholds": thresholds_to_json(found.thresholds),
        "symbols": {name: symbol},
        "messages": {},
        "message-id": message_id,
        "time_real": seconds,
        "milter": {
            "remove_headers": dict.fromkeys(verdict_fields.VERDICT_FIELDS, 0),
            "add_headers": _verdict_fields(found, model),
        },
    }


def _verdict_fields(found: Check, model: str) -> dict[str, Any]:
    """The verdict's header fields, each on one line: not every client folds them again."""
    rendered = verdict_fields.render_verdict_fields(
        found.id, found.verdict, found.probability, found.reason, model=model, thresholds=found.thresholds
    )
    return {name: {"value": value.replace("\r\n\t", " "), "order": 0} for name, value in rendered}


def thresholds_to_json(found: Thresholds) -> dict[str, float]:
    """The scores from which actions are asked for, the highest first."""
    told = {} if found.reject is None else {REJECT: verdict_fields.clamped_log_odds(found.reject)}
    return {**told, ADD_HEADER: verdict_fields.clamped_log_odds(found.spam)}


def lesson_response(lesson: Lesson) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to feedback."""
    if lesson.outcome == "already":
        error = f"<{lesson.after.id}> has been already learned as {lesson.label}, ignore it"
        return ALREADY_LEARNED, {"error": error}
    return 200, {"success": True}


def status_to_json(facts: ModelStatus, version: str, uptime: float, verdicts: Mapping[str, int]) -> dict[str, Any]:
    """The answer to ``/stat``; ``verdicts`` are the messages checked since the start, by verdict, of all doors."""
    actions = dict.fromkeys((REJECT, "soft reject", "rewrite subject", ADD_HEADER, "greylist", NO_ACTION), 0)
    for verdict in Verdict:
        actions[action_of_verdict(verdict)] += verdicts.get(str(verdict), 0)
    learned = facts.state.learned
    return {
        "version": version,
        "config_id": facts.name,
        "uptime": int(uptime),
        "read_only": False,
        "scanned": sum(actions.values()),
        "learned": sum(learned.values()),
        "actions": actions,
        "spam_count": actions[REJECT] + actions[ADD_HEADER],
        "ham_count": actions[NO_ACTION],
        "connections": 0,
        "control_connections": 0,
        "statfiles": [_statfile_to_json(label, learned.get(label, 0), facts) for label in CLASSES],
        "total_learns": sum(learned.values()),
        "fuzzy_hashes": {},
    }


def _statfile_to_json(label: str, count: int, facts: ModelStatus) -> dict[str, Any]:
    symbol = {"ham": "BAYES_HAM", "spam": "BAYES_SPAM"}[label]  # clients look for these names
    return {
        "symbol": symbol,
        "type": "redis",
        "revision": count,
        "used": facts.tokens,
        "total": facts.tokens,
        "size": 0,
        "languages": 0,
        "users": 1,
    }


def history_to_json(recent: Sequence[CheckedMessage], thresholds: Thresholds) -> dict[str, Any]:
    """The answer to ``/history``: the messages that were checked last and are remembered, the newest first."""
    rows = []
    for each in recent:
        score, verdict = verdict_fields.clamped_log_odds(each.probability), Verdict(each.verdict)
        symbol = _SYMBOLS[verdict][0]
        rows.append(
            {
                "id": each.key,
                "score": score,
                "required_score": verdict_fields.clamped_log_odds(thresholds.spam),
                "action": action_of_verdict(verdict),
                "symbols": {symbol: {"name": symbol, "score": score, "metric_score": score, "options": []}},
            }
        )
    return {"version": 2, "rows": rows}


def symbols_to_json() -> list[dict[str, Any]]:
    """The answer to ``/symbols``."""
    rules = [
        {"symbol": name, "weight": 0.0, "description": told, "frequency": 0, "frequency_stddev": 0, "time": 0}
        for name, told in dict.fromkeys(_SYMBOLS.values())
    ]
    return [{"group": "nbstream", "rules": rules}]


def error_to_json(detail: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": detail}
