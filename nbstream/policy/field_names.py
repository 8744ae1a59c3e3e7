"""The names of header fields: which may be written or removed, and which other filters write.

Rules: a field that mail servers or mail programs act on, or that a signature covers, is never one of ours.
"""

from __future__ import annotations

import re

MAX_NAME_CHARACTERS = 60

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9-]{{0,{MAX_NAME_CHARACTERS - 1}}}")

# The registered fields of mail that carry addresses, its way, its content or its threads (RFC 5322, RFC 2045,
# RFC 2919, RFC 2369, RFC 6376, RFC 8601, RFC 8617), and what mailboxes go by.
_STRUCTURAL_NAMES = frozenset(
    {"from", "sender", "reply-to", "to", "cc", "bcc", "date", "subject", "comments", "keywords", "mime-version"}
    | {"message-id", "in-reply-to", "references", "return-path", "received", "received-spf", "delivered-to"}
    | {"authentication-results", "autocrypt", "auto-submitted", "precedence", "encrypted", "original-recipient"}
    | {"disposition-notification-to", "errors-to", "envelope-to", "status", "x-status", "x-original-to", "x-uidl"}
    | {"x-loop"}
)
_STRUCTURAL_PREFIXES = ("resent-", "content-", "list-", "dkim-", "domainkey-", "arc-", "original-", "x-mozilla-")

# The name, or its beginning where a hyphen ends it.
_OTHER_FILTERS = {
    "x-spam-flag": "SpamAssassin",
    "x-spam-status": "SpamAssassin",
    "x-spam-level": "SpamAssassin",
    "x-spam-": "SpamAssassin",
    "x-spam": "rspamd",
    "x-spamd-": "rspamd",
    "x-rspamd-": "rspamd",
    "x-bogosity": "bogofilter",
    "x-spambayes-": "SpamBayes",
    "x-crm114-": "CRM114",
    "x-dspam-": "DSPAM",
    "x-amavis-": "amavis",
    "x-quarantine-": "amavis",
    "x-virus-": "ClamAV and amavis",
    "x-barracuda-": "Barracuda",
    "x-ironport-": "IronPort",
    "x-proofpoint-": "Proofpoint",
    "x-mailscanner": "MailScanner",
    "x-mailscanner-": "MailScanner",
    "x-microsoft-antispam": "Exchange",
    "x-microsoft-antispam-": "Exchange",
    "x-forefront-": "Exchange",
    "x-ms-exchange-": "Exchange",
}


def require_own_name(name: str) -> str:
    """Return the name of a field that nbstream may write or remove. Raises ValueError, "must be ..."."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"must be the name of a header field: letters, digits and -, {MAX_NAME_CHARACTERS} at most"
        )
    lower = name.lower()
    if lower in _STRUCTURAL_NAMES or lower.startswith(_STRUCTURAL_PREFIXES):
        raise ValueError("must be a field that no mail server or mail program acts on, such as X-Spam")
    return name


def other_filter_of(name: str) -> str | None:
    """Return the filter that writes fields of this name, or None where none is known."""
    lower = name.lower()
    prefixes = (lower[: end + 1] for end, character in enumerate(lower) if character == "-")
    return _OTHER_FILTERS.get(lower) or next(
        (_OTHER_FILTERS[prefix] for prefix in prefixes if prefix in _OTHER_FILTERS), None
    )
