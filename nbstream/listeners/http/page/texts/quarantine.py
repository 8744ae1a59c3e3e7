"""The texts of the view quarantine."""

from __future__ import annotations

TEXTS = {
    "name": "Quarantine",
    "caption_newest": "Quarantined messages, the newest first",
    "caption_least-spam": "Quarantined messages, the lowest P(spam) first",
    "order": "Order",
    "order_newest": "newest first",
    "order_least-spam": "lowest P(spam) first",
    "first_newest": "Newest",
    "first_least-spam": "Lowest P(spam)",
    "next_newest": "Older",
    "next_least-spam": "Higher P(spam)",
    "nothing_found": "No message that waits here matches this filter.",
    "looked_at": "2,000 messages were looked at, back to",
    "waiting": "{count:,} messages wait here until somebody releases or deletes them, or until they expire.",
    "waiting.one": "1 message waits here until somebody releases or deletes it, or until it expires.",
    "empty": "No message waits in the quarantine.",
    "not_used": (
        "No mail goes there: no action in the configuration is quarantine. With actions.spam: quarantine, spam "
        "waits here instead of being delivered."
    ),
    "unreadable": "The quarantine cannot be read: {why}. The log of the daemon names the file.",
    "gone": "This message is not in the quarantine: it was released or removed, or has expired.",
    "nothing_selected": "Nothing was changed: no message was selected. Tick some in the list first.",
    "too_many": "Nothing was changed: at most {limit} messages can be selected at a time.",
    "unknown_action": "Nothing was changed: the quarantine has no such action.",
    "select": "Select",
    "select_message": "Select the message {id}",
    "select_all": "Select all on this page",
    "select_none": "Select none",
    "time": "Time",
    "verdict": "Verdict",
    "probability": "P(spam)",
    "policy": "Policy",
    "sender": "From",
    "null_sender": "<> (null sender)",
    "recipients": "To",
    "more_recipients": "and {count} more",
    "more_recipients_why": "{count} further recipients are not shown",
    "more_recipients_why.one": "1 further recipient is not shown",
    "subject": "Subject",
    "copies": "{count} copies",
    "in_doubt": "may have been delivered",
    "in_doubt_why": (
        "This message may have been delivered: a release ended before the next hop's answer. If it is released "
        "again, its recipients may get it twice."
    ),
    "release": "Release",
    "release_why": "A release teaches the message as ham, and delivers it to its recipients.",
    "release_again": "Deliver all the same",
    "delete": "Delete",
    "delete_title": "Delete for good?",
    "delete_why": (
        "A deleted message cannot be brought back. Nothing is learned from it, and its sender is not told."
    ),
    "delete_confirm": "Delete {count} messages",
    "delete_confirm.one": "Delete 1 message",
    "cancel": "Cancel",
    "deleted": "The message was deleted.",
    "taught_all_the_same": "{why}. The message was taught as ham before: {lesson}",
    "released": "The message was delivered. {lesson}",
    "not_released": "Not released: {why}",
    "no_time": "The release was not tried, because the others took too long. Release the message once more.",
    "results": "Results",
    "done": "done",
    "failed": "not done",
    "message": "Message",
    "result": "Result",
    "back": "Back to the quarantine",
    "envelope": "Envelope",
    "header": "Header",
    "text": "Text",
    "text_cut": "The rest is not shown.",
    "no_text": "The message has no text that could be shown.",
    "text_why": (
        "The message is shown as text. Nothing is fetched, and of HTML only what a reader would see is left."
    ),
    "file_unreadable": "Its file cannot be read: it was released or removed just now, or it is damaged.",
}
