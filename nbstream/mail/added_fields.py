"""Header fields that are added on arrival: by other filters, by the server of the recipient, by the mailbox.

They may contain the label itself: no token is made of them. And nbstream must not write fields of another filter.

Rules: this is the only list of them. The native library has the same one, which ``tools.native_tables`` writes.
Names are in lower case.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

FILTER_WORDS = ("antiabuse", "bogosity", "greylist", "scanner", "spam", "virus")
"""A name with one of these words anywhere in it is that of a filter."""

X_PREFIXES = (
    *("barracuda", "uuid", "rspamd", "nbstream", "miltered", "dspam", "crm114", "amavis", "quarantine"),
    *("ms-exchange-organization", "forefront", "microsoft-antispam", "sa-", "proofpoint", "mozilla-", "envelope-"),
    *(
        "rcpt-",
        "gmail-",
        "ironport",
        "pmx-",
        "sieve",
        "evolution",
        "delivery-agent",
        "junk",
        "dcc-",
        "razor",
        "pyzor",
    ),
    *("scan", "filter", "content-filter", "policyd"),
)
"""What such a name begins with, after ``x-``."""

MAILBOX_NAMES = (
    *("status", "keywords", "label", "original-to", "apparently-to", "uid", "uidl", "imap", "imapbase", "folder"),
)
"""Fields of mailboxes; each may have ``x-`` before it."""

ARRIVAL_NAMES = (
    *("delivered-to", "delivery-date", "content-length", "lines", "envelope-to", "received-spf"),
    "authentication-results",
)
"""Other fields that the server of the recipient writes. So are all that begin with ``arc-``."""

_ADDED_ON_ARRIVAL = (
    rf".*(?:{'|'.join(FILTER_WORDS)}).*|x-(?:{'|'.join(X_PREFIXES)}).*|(?:x-)?(?:{'|'.join(MAILBOX_NAMES)})"
    rf"|{'|'.join(ARRIVAL_NAMES)}|arc-.*|x-(?:.*-)?authentication-.*"
)


@cache
def _added_on_arrival() -> re.Pattern[str]:
    """Return the pattern, which takes three milliseconds to compile; the native tokenizer needs none."""
    return re.compile(_ADDED_ON_ARRIVAL)


@lru_cache(maxsize=1024)
def is_added_on_arrival(name: str) -> bool:
    """Return whether another filter, a server on arrival or a mailbox writes fields of this name."""
    return _added_on_arrival().fullmatch(name) is not None
