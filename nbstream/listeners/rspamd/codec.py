"""rspamd's HTTP protocol as its clients speak it: what they send, and the bodies that they read.

Rules: pure. Scores are ln(P / (1 - P)), in nats, and a threshold is given as such a score, which makes the two
comparable. Each message has one symbol, which names its verdict. Two rules come from the source of rspamc 3.4: a
body is never empty, because rspamc takes that for an error, and a lesson that changed nothing is answered with
status 208 and an ``error``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nbstream.bayes.columns import CLASSES
from nbstream.policy.header import clamped_log_odds
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.filter.results import FeedbackResult
    from nbstream.mail.header_edits import HeaderEdits
    from nbstream.mail.message import Message
    from nbstream.policy.check import Check
    from nbstream.policy.verdict import Thresholds
    from nbstream.server.api_json import ModelStatus
    from nbstream.store.recent.checked_messages import CheckedMessage

NO_ACTION, ADD_HEADER, REWRITE_SUBJECT, REJECT = "no action", "add header", "rewrite subject", "reject"
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
CLASS_FIELD = "Class"
SENDER_FIELD = "From"
"""The sender of the envelope."""
RECIPIENT_FIELD = "Rcpt"
"""Once for each recipient."""
MAILBOX_FIELD = "Deliver-To"
"""The mailbox that the message goes to, where there is one."""
CLIENT_FIELD = "IP"
"""The address of the host that brought the message to the mail server."""
USER_FIELD = "User"
"""The user who logged in there."""

ALREADY_LEARNED = 208


def action_of_verdict(verdict: Verdict) -> str:
    """Return the action that a client is asked to take for this verdict."""
    return _ACTIONS[verdict]


def message_id_field(message: Message) -> str:
    """Return the message's Message-ID without angle brackets, or ``undef`` where it has none, as rspamd does."""
    field = message.find_field("message-id")
    return (field.text.strip().strip("<>") if field else "") or "undef"


def check_to_json(
    check: Check, edits: HeaderEdits, message: Message, seconds: float, *, acts: bool = True
) -> dict[str, Any]:
    """Return the answer to ``/checkv2``.

    ``edits`` is what the client is asked to do to the header, and ``seconds`` the time that the check took. Where
    ``acts`` is not set, this is a trial, and the client is asked for no action.
    """
    score = clamped_log_odds(check.probability)
    name, description = _SYMBOLS[check.verdict]
    kind = check.kind.kind if check.kind else None
    symbol = {
        "name": name,
        "score": score,
        "metric_score": score,
        "description": description,
        "options": [
            *(f"probability={check.probability:.6f}", check.reason, f"id={check.id}"),
            *([f"kind={kind}"] if kind else []),
        ],
    }
    return {
        "is_skipped": False,
        "score": score,
        "required_score": clamped_log_odds(check.thresholds.spam),
        **(_requested_action(check.verdict, edits, message) if acts else {"action": NO_ACTION}),
        "thresholds": thresholds_to_json(check.thresholds),
        "symbols": {name: symbol},
        "messages": {},
        "message-id": message_id_field(message),
        "time_real": seconds,
        "milter": {
            "remove_headers": dict.fromkeys(edits.removed_names, 0),
            # Each is unfolded to one line, because not every client folds them again.
            "add_headers": {
                name: {"value": value.replace("\r\n\t", " "), "order": 0} for name, value in edits.added
            },
        },
    }


def _requested_action(verdict: Verdict, edits: HeaderEdits, message: Message) -> dict[str, str]:
    """Return the action, and the new subject where the client is asked to rewrite it."""
    action = action_of_verdict(verdict)
    if action != ADD_HEADER or not edits.subject_tag:
        return {"action": action}
    field = message.find_field("subject")
    return {"action": REWRITE_SUBJECT, "subject": f"{edits.subject_tag} {field.text if field else ''}".rstrip()}


def thresholds_to_json(thresholds: Thresholds) -> dict[str, float]:
    """Return the scores from which a client is asked for an action, by action, the highest first."""
    scores = {} if thresholds.reject is None else {REJECT: clamped_log_odds(thresholds.reject)}
    return {**scores, ADD_HEADER: clamped_log_odds(thresholds.spam)}


def lesson_response(lesson: FeedbackResult) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the body of the answer to feedback."""
    if lesson.outcome == "already":
        error = f"<{lesson.after.id}> has been already learned as {lesson.class_name}, ignore it"
        return ALREADY_LEARNED, {"error": error}
    return 200, {"success": True}


def status_to_json(
    status: ModelStatus, version: str, uptime: float, verdicts: Mapping[str, int]
) -> dict[str, Any]:
    """Return the answer to ``/stat``; ``verdicts`` counts the checks of all listeners since the start."""
    actions = dict.fromkeys((REJECT, "soft reject", "rewrite subject", ADD_HEADER, "greylist", NO_ACTION), 0)
    for verdict in Verdict:
        actions[action_of_verdict(verdict)] += verdicts.get(str(verdict), 0)
    learned = status.state.learned
    return {
        "version": version,
        "config_id": status.name,
        "uptime": int(uptime),
        "read_only": False,
        "scanned": sum(actions.values()),
        "learned": sum(learned.values()),
        "actions": actions,
        "spam_count": actions[REJECT] + actions[ADD_HEADER],
        "ham_count": actions[NO_ACTION],
        "connections": 0,
        "control_connections": 0,
        "statfiles": [_statfile_to_json(label, learned.get(label, 0), status) for label in CLASSES],
        "total_learns": sum(learned.values()),
        "fuzzy_hashes": {},
    }


def _statfile_to_json(label: str, count: int, status: ModelStatus) -> dict[str, Any]:
    symbol = {"ham": "BAYES_HAM", "spam": "BAYES_SPAM"}[label]  # clients look for these names
    return {
        "symbol": symbol,
        "type": "redis",
        "revision": count,
        "used": status.tokens,
        "total": status.tokens,
        "size": 0,
        "languages": 0,
        "users": 1,
    }


def history_to_json(recent: Sequence[CheckedMessage], thresholds: Thresholds) -> dict[str, Any]:
    """Return the answer to ``/history``: the last checked messages that are remembered, the newest first."""
    rows = []
    for message in recent:
        score, verdict = clamped_log_odds(message.probability), Verdict(message.verdict)
        symbol = _SYMBOLS[verdict][0]
        rows.append(
            {
                "id": message.key,
                "score": score,
                "required_score": clamped_log_odds(thresholds.spam),
                "action": action_of_verdict(verdict),
                "symbols": {symbol: {"name": symbol, "score": score, "metric_score": score, "options": []}},
            }
        )
    return {"version": 2, "rows": rows}


def symbols_to_json() -> list[dict[str, Any]]:
    """Return the answer to ``/symbols``: the symbols that a message can have, with their descriptions."""
    rules = [
        {
            "symbol": name,
            "weight": 0.0,
            "description": description,
            "frequency": 0,
            "frequency_stddev": 0,
            "time": 0,
        }
        for name, description in dict.fromkeys(_SYMBOLS.values())
    ]
    return [{"group": "nbstream", "rules": rules}]


def counters_to_json(verdicts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the answer to ``/counters``: how often each symbol was the result of a check since the start."""
    checks = sum(verdicts.values())
    hits = Counter[str]()
    for verdict in Verdict:
        hits[_SYMBOLS[verdict][0]] += verdicts.get(str(verdict), 0)
    return [
        {"symbol": symbol, "weight": 0.0, "frequency": count / max(checks, 1), "hits": count, "time": 0.0}
        for symbol, count in hits.items()
    ]
