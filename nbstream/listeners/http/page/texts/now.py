"""The texts of the view now."""

from __future__ import annotations

TEXTS = {
    "name": "Now",
    "title": "What happens now",
    "made": "As of",
    "live": "This page is kept up to date.",
    "not_live": "This page is not kept up to date: it has no connection, or too many pages have one. "
    "It tries again by itself.",
    "too_many_listeners": "{count} browsers are kept up to date by this process already.",
    "findings": "What is wrong",
    "severity": "How bad",
    "severity_ok": "ok",
    "severity_note": "note",
    "severity_warning": "warning",
    "severity_problem": "problem",
    "severity_unknown": "unknown",
    "unknown": "The daemon does not answer this page: below is what it said last.",
    "what": "What",
    "remedy": "What to do",
    "nothing_wrong": "Nothing is wrong.",
    "activity": "Messages a minute, by verdict",
    "spans": "Time",
    "span_hour": "Last hour",
    "span_day": "Last day",
    "span_week": "Last week",
    "old": "Redis cannot be read. These numbers are of",
    "never_read": "Redis cannot be read, and no numbers are known.",
    "chart_title": "Messages a minute by verdict",
    "chart_summary": "{span}: {counts}.",
    "class_count": "{number} {name}",
    "unchecked_hint": (
        "The check of {count} messages failed, so that they have no verdict: they passed or had to come again, as "
        "on_filter_failure says. The log says why."
    ),
    "unchecked_hint.one": (
        "The check of {count} message failed, so that it has no verdict: it passed or had to come again, as "
        "on_filter_failure says. The log says why."
    ),
    "bar": "{time}: {counts}",
    "checks": "messages",
    "a_minute": "a minute",
    "below": "< {milliseconds} ms",
    "latency": "{percent} % of the checks",
    "as_table": "The same as a table",
    "table_caption": "Messages by verdict, the newest first",
    "from": "From",
    "processes": "Processes of all hosts",
    "host": "Host",
    "worker": "Worker",
    "only_process": "the only one",
    "version": "Version",
    "counts": "Counts",
    "not_loaded": "not loaded",
    "up_to_date": "up to date",
    "lag": "{seconds} s old",
    "seen": "Last seen",
    "no_processes": "No process has said how it is.",
    "listeners": "Listeners",
    "listener": "Listener",
    "address": "Address here",
    "open": "Open now",
    "accepted": "Accepted",
    "refused": "Refused",
    "connections_hint": (
        "Connections of all hosts: open when each process said so last, every ten seconds; accepted and refused "
        "(the listener was full, or closed) since it began."
    ),
    "store": "Redis and quarantine",
    "redis": "Redis",
    "answers_in": "Answers in",
    "no_answer": "no answer",
    "milliseconds": "{number} ms",
    "mirror": "Counts here",
    "quarantine": "Quarantine",
    "quarantined": "{count:,} messages, counted once a minute",
    "quarantined.one": "{count} message, counted once a minute",
    "not_counted": "not counted yet",
}
