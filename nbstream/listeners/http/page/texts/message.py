"""The texts of the view of one message."""

from __future__ import annotations

TEXTS = {
    "title": "Message",
    "unknown": "There is no message with this id, or it is not remembered any more.",
    "unknown_action": "Nothing was changed: a message has no such action.",
    "forgotten": (
        "Nothing was changed: too little of this message is remembered to learn it. "
        "Teach the message itself, by mail or with nbstream learn."
    ),
    "changed_meanwhile": "Nothing was changed: somebody has taught this message meanwhile. Look at it again.",
    "verdict": "Verdict",
    "probability": "P(spam)",
    "score": "score",
    "reason": "Reason",
    "policy": "Policy",
    "thresholds": "Thresholds",
    "unsure_from": "unsure from {threshold}",
    "spam_from": "spam from {threshold}",
    "reject_from": "reject from {threshold}",
    "at": "Time",
    "id": "Id",
    "from": "From",
    "null_sender": "<> (null sender)",
    "to": "To",
    "more_recipients": "and {count} more",
    "subject": "Subject",
    "listener": "Listener",
    "action": "Action",
    "waits": "In the quarantine",
    "text_not_stored": (
        "The header and the text of this message are not stored: nbstream keeps what it needs to explain and "
        "learn a message, and the text only of what waits in the quarantine."
    ),
    "outcome": "Quarantine",
    "outcome_released": "released from the quarantine",
    "outcome_deleted": "deleted from the quarantine",
    "ham_waits": (
        "This message is learned as ham, and still waits in the quarantine: whoever it is for has not got it."
    ),
    "learned": "Learned",
    "learned_as": "as {label}",
    "autolearned_as": "automatically, as {label}",
    "not_learned": "not learned",
    "then": "At the check",
    "now": "Now",
    "then_and_now": "At the check, and the same now",
    "now_note": (
        "This is what the model and the default policy say now. The verdict that the message got stays as it is."
    ),
    "then_unknown": (
        "The explanation of the check is not remembered. The message was never checked, its check is older than "
        "memory.hours, more than memory.messages others were checked since, or memory.explanations is false."
    ),
    "only_learned": (
        "The message was learned, and no check of it is remembered. It is explained by the tokens that it was "
        "learned with."
    ),
    "only_quarantined": (
        "The check of this message is not remembered any more. The verdict that it got stands below."
    ),
    "only_taught": (
        "This message was taught and taken back, and nothing else of it is remembered. To teach it again, you "
        "need the message itself."
    ),
    "learning": (
        "The model is not taught enough yet: it knows {ham} of {needed_ham} messages that are ham and {spam} of "
        "{needed_spam} that are spam. Until then every verdict is unsure."
    ),
    "was_learning": "The model was not taught enough then: it knew {ham} ham and {spam} spam.",
    "calibration": "calibration: how sure such scores were right to be",
    "chart_result": "P(spam) {probability}",
    "prior": "prior: messages learned",
    "more_clues": "{count} weaker clues",
    "more_clues.one": "1 weaker clue",
    "chart_then": "How the clues added up to P(spam) at the check. The table of clues says the same in numbers.",
    "chart_now": "How the clues add up to P(spam) now. The table of clues says the same in numbers.",
    "chart_help": (
        "A bar that goes to the right speaks for spam, one that goes to the left for ham. The upper numbers are "
        "log-odds in nats, the lower ones the probability. Words come together, so that the sum of the clues is "
        "too sure of itself: the calibration, which learns from labelled mail, corrects it. The dashed lines are "
        "the thresholds."
    ),
    "clues": "Clues",
    "clues_help": (
        "The weight of a clue is its log-ratio: above 0 it speaks for spam, below 0 for ham. Beside it stands how "
        "many messages of each class had it, each by its weight as a lesson."
    ),
    "clues_caption": "The clues, the strongest first",
    "more_rows": "{count} further clues",
    "more_rows.one": "1 further clue",
    "no_clues": "There is no clue: the model knows no token of this message.",
    "token": "Token",
    "origin": "Where",
    "group": "Group",
    "group_head": "header and structure",
    "group_body": "text and links",
    "group_raw": "header as written",
    "weight": "weight",
    "ham_count": "ham",
    "spam_count": "spam",
    "history": "History",
    "history_change": "Change",
    "history_who": "Who",
    "history_effect": "P(spam) before and after",
    "history_repeats": "taught again, as Redis had lost it",
    "no_history": "Nobody has taught this message, or it was so long ago that the history has it no more.",
    "actions": "Put it right",
    "teach_ham": "This is ham",
    "teach_spam": "This is spam",
    "take_back": "Take the lesson back",
    "insist": "Insist on {label}",
    "contradicted": "The message is learned as {label}, and the verdict contradicts that.",
    "release": "Release from the quarantine",
    "release_again": "Deliver all the same",
    "keys": "Keys",
    "key_next": "the next message of the list",
    "key_previous": "the one before",
    "key_next_line": "the next message",
    "key_previous_line": "the one before",
    "key_open": "open it",
    "key_ham": "this is ham",
    "key_spam": "this is spam",
    "key_take_back": "take the lesson back",
    "key_help": "show these keys",
}
