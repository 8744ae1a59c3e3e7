"""The texts of the view undo."""

from __future__ import annotations

TEXTS = {
    "title": "Take back what was taught",
    "explained": "Each selected change is undone exactly, if its message is still as the change left it. Nothing "
    "is changed before you confirm it, and what was taken back can be taken back as well.",
    "preview": "Show what would happen",
    "needs": "Enter a time in Since, or the id of a message.",
    "would": "What would happen",
    "none": "No change of the history is selected.",
    "outcome": "What would become of it",
    "totals": "The model knows {ham} ham and {spam} spam. Then it would know {then_ham} ham and {then_spam} spam.",
    "verdicts": "Of the last {count} checked messages these would get another verdict:",
    "no_verdicts": "None of the last {count} checked messages would get another verdict.",
    "no_messages": "No checked messages are remembered, so nobody knows which verdicts would change.",
    "was": "Verdict",
    "would_be": "It would be",
    "messages": "Messages",
    "hidden": "{count} more changes are not shown.",
    "hidden.one": "One more change is not shown.",
    "confirm": "Take back {count} changes",
    "confirm.one": "Take back this change",
    "role": "You have logged in to read only: log in for teaching to take something back.",
    "busy": "Another undo or preview is at work. Please try again in a minute.",
    "too_slow": "This took too long and was stopped. What was done by then stands in the history; the same may be "
    "done again.",
    "too_many": "These are more than {count} changes: choose fewer, or run nbstream undo.",
    "nothing_selected": "Nothing is selected: enter a time in Since, or the id of a message.",
    "done": "Changes: {outcomes}.",
}
