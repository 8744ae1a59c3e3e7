"""The texts of the view messages."""

from __future__ import annotations

TEXTS = {
    "name": "Messages",
    "title": "Messages",
    "remembered": "{count:,} checked messages are remembered, each for {hours} hours at most.",
    "remembered.one": "{count} checked message is remembered, for {hours} hours at most.",
    "filter": "Filter",
    "more_filters": "Time, id and policy",
    "filter_id": "Id, or its beginning",
    "filter_verdict": "Verdict",
    "any_verdict": "any",
    "filter_action": "Action",
    "any_action": "any",
    "filter_policy": "Policy",
    "any_policy": "any",
    "filter_subject": "Subject has",
    "filter_sender": "Sender",
    "filter_recipient": "Recipient",
    "address_example": "ann@x.org or @x.org",
    "filter_since": "Since",
    "filter_until": "Until",
    "apply": "Search",
    "clear": "Show all",
    "time_zone": "Times are in the time zone of the daemon ({zone}).",
    "unknown_time": "A time was not understood and is left out. Write it as 2026-11-23T14:30.",
    "unknown_action": "There is no such action: messages with all actions are shown.",
    "part_of_address": (
        "{written} is not looked for: only a whole address is, such as ann@x.org, or a whole domain, such as "
        "@x.org."
    ),
    "whole_addresses": (
        "Only whole addresses are looked for, such as ann@x.org, or all addresses of a domain, such as @x.org, "
        "without those of its subdomains."
    ),
    "unknown_verdict": "There is no such verdict: all verdicts are shown.",
    "caption": "Checked messages, the newest first",
    "time": "Time",
    "way": "From \N{RIGHTWARDS ARROW} to",
    "to": "to",
    "more": "and {count} more",
    "subject": "Subject",
    "verdict": "Verdict",
    "probability": "P(spam)",
    "policy": "Policy",
    "action": "Action",
    "learned": "Learned",
    "teach_ham": "These are ham",
    "teach_spam": "These are spam",
    "take_back": "Take the lessons back",
    "not_taught": "The daemon did not answer. Try it again.",
    "back": "Back to the messages",
    "previous": "The message before",
    "next": "The next message",
    "to_list": "Back to the list",
    "released": "released",
    "deleted": "deleted",
    "no_envelope": (
        "Senders, recipients, subjects and actions are not remembered, because memory.envelope is false. To "
        "remember them of new mail, remove that line and restart the daemon."
    ),
    "unknown": (
        "A dash (\N{EN DASH}) is what was not known at the check. A program that asks for a verdict need not name "
        "the sender and the recipients, and takes the action itself."
    ),
    "nothing_kept": (
        "No checked message is remembered, because memory.messages is 0. "
        "Set it to the number of messages that this list shall have, and restart the daemon."
    ),
    "empty": (
        "No message is remembered yet. This list shows each message that goes through the daemon, or for which a "
        "program asks the daemon for a verdict. What the command nbstream check looks at is not remembered."
    ),
    "nothing_found": "No remembered message matches this filter.",
    "not_tried": "Not tried: it took too long, or Redis went away. Do it once more.",
    "nothing_left": "There are no further messages.",
    "cut_older": "2,000 messages were looked at, back to",
    "cut_newer": "2,000 messages were looked at, up to",
    "search_on": "Search on",
    "paging": "Other messages",
    "older": "Older",
    "newer": "Newer",
    "newest": "Newest",
}
