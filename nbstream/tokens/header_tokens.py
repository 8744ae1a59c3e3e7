"""Header fields to tokens: who wrote, by which way, with which program, and how the fields are laid out.

Rules: a field that another filter or a mailbox wrote is never read (it may hold the very label); patterns
consume what they scan, and at most ``MAX_VALUE_BYTES`` bytes of a value and ``MAX_FIELDS`` fields are looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from nbstream.tokens.encoding import encode_tokens
from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import parent_domains
from nbstream.tokens.words import distinct_words, fold_text, text_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nbstream.mail.header_fields import HeaderField

MAX_VALUE_BYTES = 2000
MAX_FIELDS = 100

# What filters, gateways and mailboxes write on arrival. Names are matched as a whole, in lower case.
_ADDED_ON_ARRIVAL = re.compile(
    r".*(?:spam|virus|scanner|bogosity|antiabuse|greylist).*"
    r"|x-(?:barracuda|uuid|rspamd|nbstream|miltered|dspam|crm114|amavis|quarantine|ms-exchange-organization|forefront"
    r"|microsoft-antispam|sa-|proofpoint|mozilla-|envelope-|rcpt-|gmail-|ironport|pmx-|sieve|evolution|delivery-agent"
    r"|junk|dcc-|razor|pyzor|scan|filter|content-filter|policyd).*"
    r"|(?:x-)?(?:status|keywords|label|original-to|apparently-to|uidl?|imap|imapbase|folder)"
    r"|delivered-to|delivery-date|content-length|lines|envelope-to|received-spf|authentication-results|arc-.*"
    r"|x-(?:.*-)?authentication-.*"
)
_HOST = re.compile(r"[\w.-]+")
_HOST_BYTES = bytes(c if c < 128 and (chr(c).isalnum() or c in b"_.-") else 32 for c in bytes(range(256)).lower())
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+|[^\s<>()\[\],;:\"@]+")
_ADDRESS_NAMES = re.compile(r"[\w.+=-]+")
_PIECE = re.compile(r"[^\s<>()\[\],;\"']+")
_ZONE = re.compile(r"(?:[+-]\d{4}|[A-Z]{1,5})(?:\s*\([^)]{0,20}\))?\s*\Z")
# Fields whose absence is told. Leaving out one kind of token at a time, (1-AUC)% on SpamAssassin 2002h2, 0.094
# with all: received 0.114, order of fields 0.103, From 0.102, Subject 0.101, names as written 0.097.
_EXPECTED_FIELDS = (
    "date",
    "from",
    "to",
    "subject",
    "message-id",
    "mime-version",
    "content-type",
    "received",
    "reply-to",
)
_ADDRESS_FIELDS = frozenset({"from", "reply-to", "return-path", "sender", "errors-to", "to", "cc", "resent-from"})
# Their presence says what there is to say. The fields of a mailing list repeat each other: reading list-id alone
# gave 0.068 instead of 0.072 on the shuffled SpamAssassin corpus and the same on the others.
_PRESENCE_ONLY_FIELDS = frozenset(
    {"content-type", "references", "in-reply-to", "thread-index"}
    | {f"list-{name}" for name in ("post", "help", "subscribe", "unsubscribe", "archive", "owner")}
)
# What is not remembered: fields that no two messages share, long ones (a name may have 64 kB), and layouts of more
# than so many fields or bytes. So a sender who fills that memory with his own costs a few megabytes, and the time
# that his mail takes anyhow.
_UNCACHED_FIELDS = frozenset({"date", "message-id"})
_MAX_CACHED_BYTES = 200
_MAX_CACHED_LAYOUT_FIELDS = 50
_MAX_CACHED_LAYOUT_BYTES = 2000


@lru_cache(maxsize=1024)
def is_added_on_arrival(name: str) -> bool:
    """Whether another filter or a mailbox writes fields of this lower-case name."""
    return _ADDED_ON_ARRIVAL.fullmatch(name) is not None


def header_tokens(fields: Sequence[HeaderField]) -> list[bytes]:
    """The tokens of a message's own header fields."""
    own = [field for field in fields[:MAX_FIELDS] if not is_added_on_arrival(field.name[:80])]
    tokens = list(_message_layout_tokens(fields, own))
    hops = 0
    for field in own:
        name = field.name
        if name == "received":
            hops += 1
            if hops <= 5:
                tokens += received_tokens(_field_text(field))
        elif name not in _PRESENCE_ONLY_FIELDS:
            short = len(name) + len(field.value) <= _MAX_CACHED_BYTES
            tokens += (
                _field_tokens_cached(field) if short and name not in _UNCACHED_FIELDS else _field_tokens(field)
            )
    tokens.append(b"received:%d" % min(hops, 9))
    tokens += relation_tokens({field.name: field for field in reversed(own)})
    return tokens


def _field_tokens(field: HeaderField) -> tuple[bytes, ...]:
    return tuple(encode_tokens(_TOKENIZERS_BY_FIELD.get(field.name, other_tokens)(field.name, _field_text(field))))


# Of the fields that are no trace of one message alone, three in four came before.
_field_tokens_cached = lru_cache(maxsize=1024)(_field_tokens)


def _field_text(field: HeaderField) -> str:
    """The field's text, by a short way where nothing in it is encoded."""
    value = field.value[:MAX_VALUE_BYTES]
    if b"=?" in value or not value.isascii():
        return only_known(field.text[:MAX_VALUE_BYTES])
    return value.decode("ascii").replace("\r\n", "")


def _message_layout_tokens(fields: Sequence[HeaderField], own: Sequence[HeaderField]) -> tuple[bytes, ...]:
    if len(fields) <= _MAX_CACHED_LAYOUT_FIELDS:
        written = tuple([field.name_as_written for field in own])
        short = sum(map(len, written)) <= _MAX_CACHED_LAYOUT_BYTES
        return _encoded_layout_tokens_cached(written) if short else _encoded_layout_tokens(written)
    names = [field.name for field in own]
    present = set(names)
    return tuple(
        encode_tokens(layout_tokens(names, [field.name_as_written for field in fields if field.name in present]))
    )


def _encoded_layout_tokens(written: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(encode_tokens(layout_tokens([name.lower() for name in written], written)))


# Each program writes the same fields in the same order: of the layouts in a stream of mail, four in five came
# before.
_encoded_layout_tokens_cached = lru_cache(maxsize=512)(_encoded_layout_tokens)


def layout_tokens(names: Sequence[str], written: Iterable[str]) -> list[str]:
    """Which fields there are, how their names are written, in which order, and which are missing."""
    present = set(names)
    tokens = [f"absent:{name}" for name in _EXPECTED_FIELDS if name not in present]
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
            tokens.append(f"{name}.name:{fold_text(piece)[:40]}")
            continue
        addresses += 1
        if addresses <= 5:
            tokens.append(f"{name}:{local}@{domain}"[:60])
            tokens += [f"{name}:{host}" for host in parent_domains(domain)]
            tokens.append(f"{name}.local:{text_shape(local)}")
    tokens.append(f"{name}.addresses:{min(addresses, 9)}")
    tokens.append(f"{name}.shape:{_address_list_outline(text)}")
    return tokens[:60]


def _address_list_outline(text: str) -> str:
    """What is left of an address list's beginning when each run of names and addresses is an "a"."""
    return _ADDRESS_NAMES.sub("a", text[:100])[:24]


def subject_tokens(name: str, text: str) -> list[str]:
    """The words of the subject, as they stand in the body too, and how it is written."""
    tokens = [f"{name}:{word}" for word in distinct_words(text)]
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
    for host in dict.fromkeys(_host_names(text.partition(";")[0])):
        if "." in host:
            tokens += (
                _received_host_tokens_cached(host)
                if len(host) <= _MAX_CACHED_BYTES
                else _received_host_tokens(host)
            )
    return tokens[:30]


def _host_names(text: str) -> list[str]:
    """What could be names of hosts, in lower case; of ASCII in a third of the time that the pattern takes."""
    if text.isascii():
        return text.encode("ascii").translate(_HOST_BYTES).decode("ascii").split()
    return _HOST.findall(text.lower())


def _received_host_tokens(host: str) -> tuple[bytes, ...]:
    return tuple(encode_tokens([f"received:{name}" for name in parent_domains(host)]))


# Five in six hosts came before.
_received_host_tokens_cached = lru_cache(maxsize=2048)(_received_host_tokens)


def message_id_tokens(name: str, text: str) -> list[str]:
    """The outline of the local part, and the domain."""
    local, _, domain = text.strip("<> ").rpartition("@")
    return [f"{name}:{text_shape(local)}", *(f"{name}:{host}" for host in parent_domains(domain.lower()))]


def date_tokens(name: str, text: str) -> list[str]:
    """The zone and the outline of the date."""
    zone = text[-5:]
    if zone[:1] not in {"+", "-"} or not zone[1:].isdecimal() or len(zone) < 5:
        found = _ZONE.search(text[-40:])
        zone = found[0].strip() if found else "none"
    return [f"{name}:{zone}", f"{name}.shape:{text_shape(text, 40)}"]


def program_tokens(name: str, text: str) -> list[str]:
    """The program that wrote the message: as a whole and word by word."""
    pieces = _PIECE.findall(text.lower())[:10]
    return [
        f"{name}:{text_shape(text, 40)}",
        f"{name}:{'_'.join(pieces)[:50]}",
        *(f"{name}:{piece[:40]}" for piece in pieces),
    ]


def other_tokens(name: str, text: str) -> list[str]:
    """The first words of any other field; none is taken for a token of the body, whatever the field is called."""
    prefix = f"field-{name[:18]}" if name == "body" or name.startswith("url") else name[:24]
    return [f"{prefix}:{piece[:36]}" for piece in _PIECE.findall(text.lower())[:10]]


def relation_tokens(first: Mapping[str, HeaderField]) -> list[bytes]:
    """Whether senders agree, and whether a reply answers something, by the ``first`` field of each name."""
    sender = _organizational_domain(_field_text(first["from"])) if "from" in first else ""
    tokens = [
        f"same-domain:{name}:{_organizational_domain(_field_text(first[name])) == sender}".encode()
        for name in ("reply-to", "return-path", "message-id")
        if name in first
    ]
    if "subject" in first and _field_text(first["subject"])[:3].lower() == "re:":
        tokens.append(f"reply:{'references' in first or 'in-reply-to' in first}".encode())
    return tokens


def _organizational_domain(text: str) -> str:
    """The domain of the last address in ``text``, its last two labels."""
    host = _HOST.match(text.lower().rpartition("@")[2])
    return ".".join(host[0].strip(".").rsplit(".", 2)[-2:]) if host else ""


_TOKENIZERS_BY_FIELD: dict[str, Callable[[str, str], list[str]]] = {
    **dict.fromkeys(_ADDRESS_FIELDS, address_tokens),
    "subject": subject_tokens,
    "message-id": message_id_tokens,
    "date": date_tokens,
    "x-mailer": program_tokens,
    "user-agent": program_tokens,
    "dkim-signature": lambda name, text: [f"{name}:{_organizational_domain(text)}"],
    "domainkey-signature": lambda name, text: [f"{name}:{_organizational_domain(text)}"],
}
