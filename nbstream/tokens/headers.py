"""Header fields to tokens: who wrote, by which way, with which program, and how the fields are laid out.

Rules: a field that another filter or a mailbox wrote is never read (it may hold the very label); patterns
consume what they scan, and at most ``LONGEST`` bytes of a value and ``MOST`` fields are looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from nbstream.tokens.urls import parents
from nbstream.tokens.words import fold, shape, words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbstream.mail.headers import Field

LONGEST = 2000
MOST = 100

# What filters, gateways and mailboxes write on arrival. Names are matched as a whole, in lower case.
_FOREIGN = re.compile(
    r".*(?:spam|virus|scanner|bogosity|antiabuse|greylist).*"
    r"|x-(?:barracuda|uuid|rspamd|nbstream|miltered|dspam|crm114|amavis|quarantine|ms-exchange-organization|forefront"
    r"|microsoft-antispam|sa-|proofpoint|mozilla-|envelope-|rcpt-|gmail-|ironport|pmx-|sieve|evolution|delivery-agent"
    r"|junk|dcc-|razor|pyzor|scan|filter|content-filter|policyd).*"
    r"|(?:x-)?(?:status|keywords|label|original-to|apparently-to|uidl?|imap|imapbase|folder)"
    r"|delivered-to|delivery-date|content-length|lines|envelope-to|received-spf|authentication-results|arc-.*"
    r"|x-(?:.*-)?authentication-.*"
)
_NAME = re.compile(rb"(?m)^([!-9;-~]{1,60})[ \t]*:")
_HOST = re.compile(r"[\w.-]+")
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+|[^\s<>()\[\],;:\"@]+")
_PIECE = re.compile(r"[^\s<>()\[\],;\"']+")
_ZONE = re.compile(r"(?:[+-]\d{4}|[A-Z]{1,5})(?:\s*\([^)]{0,20}\))?\s*\Z")
# Fields whose absence is told. Leaving out one kind of token at a time, (1-AUC)% on SpamAssassin 2002h2, 0.094
# with all: received 0.114, order of fields 0.103, From 0.102, Subject 0.101, names as written 0.097.
_EXPECTED = ("date", "from", "to", "subject", "message-id", "mime-version", "content-type", "received", "reply-to")
_ADDRESS_FIELDS = frozenset({"from", "reply-to", "return-path", "sender", "errors-to", "to", "cc", "resent-from"})
# Their presence says what there is to say. The fields of a mailing list repeat each other: reading list-id alone
# gave 0.068 instead of 0.072 on the shuffled SpamAssassin corpus and the same on the others.
_SILENT_FIELDS = (
    *("content-type", "references", "in-reply-to", "thread-index"),
    *(f"list-{name}" for name in ("post", "help", "subscribe", "unsubscribe", "archive", "owner")),
)


@lru_cache(maxsize=1024)
def is_foreign(name: str) -> bool:
    """Whether another filter or a mailbox writes fields of this lower-case name."""
    return _FOREIGN.fullmatch(name) is not None


def header_tokens(fields: Sequence[Field], block: bytes) -> list[str]:
    """The tokens of a message's own header fields; ``block`` are the raw bytes they were read from."""
    own = [(field.name, _text(field)) for field in fields[:MOST] if not is_foreign(field.name[:80])]
    names = [name for name, _ in own]
    tokens = layout_tokens(names, block)
    hops = 0
    for name, text in own:
        if name != "received":
            tokens += _READERS.get(name, other_tokens)(name, text)
        elif hops < 5:
            hops += 1
            tokens += received_tokens(text)
    tokens.append(f"received:{min(names.count('received'), 9)}")
    return tokens + relation_tokens(dict(reversed(own)))


def _text(field: Field) -> str:
    """The field's text, by a short way where nothing in it is encoded."""
    value = field.value[:LONGEST]
    if b"=?" in value or not value.isascii():
        return field.text[:LONGEST]
    return value.decode("ascii").replace("\r\n", "")


def layout_tokens(names: Sequence[str], block: bytes) -> list[str]:
    """Which fields there are, how their names are written, in which order, and which are missing."""
    present = set(names)
    tokens = [f"absent:{name}" for name in _EXPECTED if name not in present]
    written = dict.fromkeys(name.decode("ascii") for name in _NAME.findall(block))
    tokens += [f"field:{name}" for name in written if name.lower() in present]
    made = [name for name in names if name != "received"]
    tokens += [f"order:{first}>{second}" for first, second in pairwise(made)]
    return tokens


def address_tokens(name: str, text: str) -> list[str]:
    """Addresses, their domains and local parts, and the words of display names."""
    tokens: list[str] = []
    addresses = 0
    for piece in _ADDRESS.findall(text):
        local, at, domain = piece.lower().partition("@")
        if not at:
            tokens.append(f"{name}.name:{fold(piece)[:40]}")
            continue
        addresses += 1
        if addresses <= 5:
            tokens.append(f"{name}:{local}@{domain}"[:60])
            tokens += [f"{name}:{host}" for host in parents(domain)]
            tokens.append(f"{name}.local:{shape(local)}")
    tokens.append(f"{name}.addresses:{min(addresses, 9)}")
    tokens.append(f"{name}.shape:{shape(_between(text))}")
    return tokens[:60]


def _between(text: str) -> str:
    """What is left of an address list's first entry without names and addresses: its punctuation."""
    return re.sub(r"[\w.+=-]+", "x", text[:100])


def subject_tokens(name: str, text: str) -> list[str]:
    """The words of the subject, as they stand in the body too, and how it is written."""
    tokens = [f"{name}:{word}" for word in words(text)]
    if text.isupper():
        tokens.append(f"{name}.capitals")
    if "  " in text:
        tokens.append(f"{name}.spaces")
    if text and not text[-1].isalnum():
        tokens.append(f"{name}.end:{text[-1]}")
    tokens.append(f"{name}.length:{len(text).bit_length()}")
    return tokens


def received_tokens(text: str) -> list[str]:
    """Hosts, addresses, protocol and server program of one hop."""
    tokens: list[str] = []
    for host in dict.fromkeys(_HOST.findall(text.partition(";")[0].lower())):
        if "." in host:
            tokens += [f"received:{name}" for name in parents(host)]
    return tokens[:30]


def message_id_tokens(name: str, text: str) -> list[str]:
    """The outline of the local part, and the domain."""
    local, _, domain = text.strip("<> ").rpartition("@")
    return [f"{name}:{shape(local)}", *(f"{name}:{host}" for host in parents(domain.lower()))]


def date_tokens(name: str, text: str) -> list[str]:
    """The zone and the outline of the date."""
    zone = _ZONE.search(text[-40:])
    return [f"{name}:{zone[0].strip() if zone else 'none'}", f"{name}.shape:{shape(text, 40)}"]


def program_tokens(name: str, text: str) -> list[str]:
    """The program that wrote the message: as a whole and word by word."""
    pieces = _PIECE.findall(text.lower())[:10]
    return [
        f"{name}:{shape(text, 40)}",
        f"{name}:{'_'.join(pieces)[:50]}",
        *(f"{name}:{piece[:40]}" for piece in pieces),
    ]


def other_tokens(name: str, text: str) -> list[str]:
    """The first words of any other field; none is taken for a token of the body, whatever the field is called."""
    prefix = f"field-{name[:18]}" if name == "body" or name.startswith("url") else name[:24]
    return [f"{prefix}:{piece[:36]}" for piece in _PIECE.findall(text.lower())[:10]]


def relation_tokens(first: Mapping[str, str]) -> list[str]:
    """Whether senders agree, and whether a reply answers something, by the ``first`` field of each name."""
    domains = {
        name: _domain(first[name]) for name in ("from", "reply-to", "return-path", "message-id") if name in first
    }
    sender = domains.get("from", "")
    tokens = [f"same-domain:{name}:{domain == sender}" for name, domain in domains.items() if name != "from"]
    if first.get("subject", "").lower().startswith("re:"):
        tokens.append(f"reply:{'references' in first or 'in-reply-to' in first}")
    return tokens


def _domain(text: str) -> str:
    """The domain of the last address in ``text``, its last two labels."""
    host = _HOST.match(text.lower().rpartition("@")[2])
    return ".".join(host[0].strip(".").split(".")[-2:]) if host else ""


_READERS: dict[str, Callable[[str, str], list[str]]] = {
    **dict.fromkeys(_ADDRESS_FIELDS, address_tokens),
    **dict.fromkeys(_SILENT_FIELDS, lambda _name, _text: []),
    "subject": subject_tokens,
    "message-id": message_id_tokens,
    "date": date_tokens,
    "x-mailer": program_tokens,
    "user-agent": program_tokens,
    "dkim-signature": lambda name, text: [f"{name}:{_domain(text)}"],
    "domainkey-signature": lambda name, text: [f"{name}:{_domain(text)}"],
}
