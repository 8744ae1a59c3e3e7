"""Recognizes by the first bytes of a file that another filter has written it, and says what to do instead.

Rules: pure; at most ``FIRST_BYTES`` are looked at, and none of them is shown.
"""

from __future__ import annotations

import re

FIRST_BYTES = 4096
"""How many bytes of a file are enough."""

_NUMBER = rb'"?\d{1,12}"?'
_DUMPS = {
    # bogoutil -d: a token, its spam, its ham, and a date or 0.
    "a dump of bogofilter": rb"\S[^\n]*[ \t]\d{1,10}[ \t]\d{1,10}[ \t](?:\d{8}|0)\r?\n",
    # sa-learn --backup
    "a backup of SpamAssassin": rb"v\t\d{1,10}\tdb_version\b",
    # sb_dbexpimp: ham and spam messages, by older versions with a comma behind; then words.
    "an export of SpamBayes": _NUMBER + b"," + _NUMBER + rb",?\r?\n",
    "a database of Redis, as rspamd has one": rb"REDIS\d{4}",
    "an SQLite database, as rspamd and bogofilter may have one": rb"SQLite format 3\0",
    # The magic numbers of a hash and a B-tree, in both byte orders, behind 12 bytes.
    "a Berkeley database, as bogofilter and SpamAssassin have one": (
        rb".{12}(?:\x61\x15\x06\x00|\x00\x06\x15\x61|\x62\x31\x05\x00|\x00\x05\x31\x62)"
    ),
}
_BETTER_WAY = (
    "nbstream learns more from the mail itself, by nbstream learn --mailboxes (at 0.1 % of the ham lost, 1 % of "
    "the spam was missed after 500 messages of each class had been learned, and 10 to 44 % after such an import)"
)
_PATTERNS = {description: re.compile(pattern, re.DOTALL) for description, pattern in _DUMPS.items()}


def refusal(first: bytes) -> str | None:
    """Return what a file that begins with ``first`` is, and the better way, if another filter has written it.

    The text goes behind the name of the file. For the figures see docs/experiments.md, "Knowledge of other
    filters".
    """
    for description, pattern in _PATTERNS.items():
        if pattern.match(first[:FIRST_BYTES]):
            return f"is {description}, which is not imported: {_BETTER_WAY}"
    return None
