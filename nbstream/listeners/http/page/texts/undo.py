"""The texts of the view undo."""

from __future__ import annotations

TEXTS = {
    "title": "Take back what was taught",
    "explained": (
        "Each selected change is taken back exactly, if nobody has taught its message since. You see first what "
        "would happen, and confirm it. What you take back here you can also put back here."
    ),
    "preview": "Show what would happen",
    "would": "What would happen",
    "none": "The history has no such change. Choose an earlier time, or fewer conditions.",
    "outcome": "What would become of it",
    "totals": (
        "The model knows {ham:,} ham and {spam:,} spam now, and would know {then_ham:,} ham and {then_spam:,} "
        "spam."
    ),
    "verdicts": "Of the last {count:,} checked messages these would get another verdict:",
    "no_verdicts": "None of the last {count:,} checked messages would get another verdict.",
    "no_messages": "No checked messages are remembered, so nobody knows which verdicts would change.",
    "was": "Verdict now",
    "would_be": "Verdict afterwards",
    "messages": "Messages",
    "hidden": "{count:,} more changes are not shown.",
    "hidden.one": "One more change is not shown.",
    "confirm": "Take back {count:,} changes",
    "confirm.one": "Take back this change",
    "busy": "Another undo or preview is at work. Please try again in a minute.",
    "too_slow": (
        "This took too long and was stopped. The history says what was taken back by then. Do the same once more "
        "for the rest."
    ),
    "too_many": "These are more than {count:,} changes: choose fewer, or run nbstream undo.",
    "nothing_selected": "Enter a time in Since, or the id of a message.",
    # by the outcome of changes
    "would be taken back": "{count:,} changes would be taken back.",
    "would be taken back.one": "1 change would be taken back.",
    "taken back": "{count:,} changes were taken back.",
    "taken back.one": "1 change was taken back.",
    "already so": "{count:,} changes are taken back already.",
    "already so.one": "1 change is taken back already.",
    "stays": "{count:,} changes stay.",
    "stays.one": "1 change stays.",
    "nothing_done": "Nothing was taken back.",
}
