"""Header fields to tokens: who wrote, by which way, with which program, and how the fields are laid out.

Rules: a field that another filter or a mailbox wrote is never read (it may hold the very label); patterns
consume what they scan, and at most ``LONGEST`` bytes of a value and ``MOST`` fields are looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from nbstream.tokens.encoding import encoded
from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import parents
from nbstream.tokens.words import fold, shape, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nbstream.mail.header_fields import Field

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
_HOST = re.compile(r"[\w.-]+")
_HOSTS = bytes(c if c < 128 and (chr(c).isalnum() or c in b"_.-") else 32 for c in bytes(range(256)).lower())
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+|[^\s<>()\[\],;:\"@]+")
_NAMES = re.compile(r"[\w.+=-]+")
_PIECE = re.compile(r"[^\s<>()\[\],;\"']+")
_ZONE = re.compile(r"(?:[+-]\d{4}|[A-Z]{1,5})(?:\s*\([^)]{0,20}\))?\s*\Z")
# Fields whose absence is told. Leaving out one kind of token at a time, (1-AUC)% on SpamAssassin 2002h2, 0.094
# with all: received 0.114, order of fields 0.103, From 0.102, Subject 0.101, names as written 0.097.
_EXPECTED = ("date", "from", "to", "subject", "message-id", "mime-version", "content-type", "received", "reply-to")
_ADDRESS_FIELDS = frozenset({"from", "reply-to", "return-path", "sender", "errors-to", "to", "cc", "resent-from"})
# Their presence says what there is to say. The fields of a mailing list repeat each other: reading list-id alone
# gave 0.068 instead of 0.072 on the shuffled SpamAssassin corpus and the same on the others.
_SILENT_FIELDS = frozenset(
    {"content-type", "references", "in-reply-to", "thread-index"}
    | {f"list-{name}" for name in ("post", "help", "subscribe", "unsubscribe", "archive", "owner")}
)
# What is not remembered: fields that no two messages share, long ones (a name may have 64 kB), and layouts of more
# than so many fields or bytes. So a sender who fills that memory with his own costs a few megabytes, and the time
# that his mail takes anyhow.
_NEW_EACH_TIME = frozenset({"date", "message-id"})
_REMEMBERED_BYTES = 200
_ORDINARY = 50
_ORDINARY_BYTES = 2000


@lru_cache(maxsize=1024)
def is_foreign(name: str) -> bool:
    """Whether another filter or a mailbox writes fields of this lower-case name."""
    return _FOREIGN.fullmatch(name) is not None


def header_tokens(fields: Sequence[Field]) -> list[bytes]:
    """The tokens of a message's own header fields."""
    own = [field for field in fields[:MOST] if not is_foreign(field.name[:80])]
    tokens = list(_layout(fields, own))
    hops = 0
    for field in own:
        name = field.name
        if name == "received":
            hops += 1
            if hops <= 5:
                tokens += received_tokens(_text(field))
        elif name not in _SILENT_FIELDS:
            short = len(name) + len(field.value) <= _REMEMBERED_BYTES
            tokens += _known_tokens(field) if short and name not in _NEW_EACH_TIME else _tokens_of(field)
    tokens.append(b"received:%d" % min(hops, 9))
    tokens += relation_tokens({field.name: field for field in reversed(own)})
    return tokens


def _tokens_of(field: Field) -> tuple[bytes, ...]:
    return tuple(encoded(_READERS.get(field.name, other_tokens)(field.name, _text(field))))


# Of the fields that are no trace of one message alone, three in four came before.
_known_tokens = lru_cache(maxsize=1024)(_tokens_of)


def _text(field: Field) -> str:
    """The field's text, by a short way where nothing in it is encoded."""
    value = field.value[:LONGEST]
    if b"=?" in value or not value.isascii():
        return only_known(field.text[:LONGEST])
    return value.decode("ascii").replace("\r\n", "")


def _layout(fields: Sequence[Field], own: Sequence[Field]) -> tuple[bytes, ...]:
    if len(fields) <= _ORDINARY:
        written = tuple([field.written for field in own])
        short = sum(map(len, written)) <= _ORDINARY_BYTES
        return _known_layout(written) if short else _layout_tokens(written)
    names = [field.name for field in own]
    present = set(names)
    return tuple(encoded(layout_tokens(names, [field.written for field in fields if field.name in present])))


def _layout_tokens(written: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(encoded(layout_tokens([name.lower() for name in written], written)))


# Each program writes the same fields in the same order: of the layouts in a stream of mail, four in five came
# before.
_known_layout = lru_cache(maxsize=512)(_layout_tokens)


def layout_tokens(names: Sequence[str], written: Iterable[str]) -> list[str]:
    """Which fields there are, how their names are written, in which order, and which are missing."""
    present = set(names)
    tokens = [f"absent:{name}" for name in _EXPECTED if name not in present]
    tokens += [f"field:{name}" for name in dict.fromkeys(written) if len(name) <= 60]
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
    tokens.append(f"{name}.shape:{_punctuation(text)}")
    return tokens[:60]


def _punctuation(text: str) -> str:
    """What is left of an address list's beginning when each run of names and addresses is an "a"."""
    return _NAMES.sub("a", text[:100])[:24]


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


def received_tokens(text: str) -> list[bytes]:
    """Hosts, addresses, protocol and server program of one hop."""
    tokens: list[bytes] = []
    for host in dict.fromkeys(_hosts(text.partition(";")[0])):
        if "." in host:
            tokens += _known_hop(host) if len(host) <= _REMEMBERED_BYTES else _hop_tokens(host)
    return tokens[:30]


def _hosts(text: str) -> list[str]:
    """What could be names of hosts, in lower case; of ASCII in a third of the time that the pattern takes."""
    if text.isascii():
        return text.encode("ascii").translate(_HOSTS).decode("ascii").split()
    return _HOST.findall(text.lower())


def _hop_tokens(host: str) -> tuple[bytes, ...]:
    return tuple(encoded([f"received:{name}" for name in parents(host)]))


# Five in six hosts came before.
_known_hop = lru_cache(maxsize=2048)(_hop_tokens)


def message_id_tokens(name: str, text: str) -> list[str]:
    """The outline of the local part, and the domain."""
    local, _, domain = text.strip("<> ").rpartition("@")
    return [f"{name}:{shape(local)}", *(f"{name}:{host}" for host in parents(domain.lower()))]


def date_tokens(name: str, text: str) -> list[str]:
    """The zone and the outline of the date."""
    zone = text[-5:]
    if zone[:1] not in {"+", "-"} or not zone[1:].isdecimal() or len(zone) < 5:
        found = _ZONE.search(text[-40:])
        zone = found[0].strip() if found else "none"
    return [f"{name}:{zone}", f"{name}.shape:{shape(text, 40)}"]


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


def relation_tokens(first: Mapping[str, Field]) -> list[bytes]:
    """Whether senders agree, and whether a reply answers something, by the ``first`` field of each name."""
    sender = _domain(_text(first["from"])) if "from" in first else ""
    tokens = [
        f"same-domain:{name}:{_domain(_text(first[name])) == sender}".encode()
        for name in ("reply-to", "return-path", "message-id")
        if name in first
    ]
    if "subject" in first and _text(first["subject"])[:3].lower() == "re:":
        tokens.append(f"reply:{'references' in first or 'in-reply-to' in first}".encode())
    return tokens


def _domain(text: str) -> str:
    """The domain of the last address in ``text``, its last two labels."""
    host = _HOST.match(text.lower().rpartition("@")[2])
    return ".".join(host[0].strip(".").rsplit(".", 2)[-2:]) if host else ""


_READERS: dict[str, Callable[[str, str], list[str]]] = {
    **dict.fromkeys(_ADDRESS_FIELDS, address_tokens),
    "subject": subject_tokens,
    "message-id": message_id_tokens,
    "date": date_tokens,
    "x-mailer": program_tokens,
    "user-agent": program_tokens,
    "dkim-signature": lambda name, text: [f"{name}:{_domain(text)}"],
    "domainkey-signature": lambda name, text: [f"{name}:{_domain(text)}"],
}
