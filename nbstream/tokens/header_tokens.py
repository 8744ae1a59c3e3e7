"""Turns header fields into tokens: who wrote, by which way, with which program, and how the fields are laid out.

Rules: a field that another filter or a mailbox wrote is never read, because it may contain the label itself.
Patterns consume what they scan. At most ``MAX_VALUE_BYTES`` bytes of a value and ``MAX_FIELDS`` fields are read.

Every kind of token is worth its place: (1-AUC)% on SpamAssassin 2002h2 is 0.094 with all of them, and larger
without any one of them; see docs/experiments.md, "Tokens".
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from nbstream.mail.added_fields import is_added_on_arrival
from nbstream.tokens.tokens import RAW_HEADER_PREFIX, encode_tokens
from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import parent_domains
from nbstream.tokens.words import distinct_words, fold_text, text_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nbstream.mail.header_fields import HeaderField


# Turns the fields of signatures into tokens: the domain that signed and its selector.
#
# The fields are DKIM-Signature (RFC 6376), DomainKey-Signature (RFC 4870), ARC-Seal and ARC-Message-Signature
# (RFC 8617). All four are tag lists, ``name=value; name=value`` (RFC 6376, section 3.2), with the domain in
# ``d`` and the selector in ``s``.
#
# Rules: nothing here raises; a field is read once. No signature is verified: whoever writes a message may sign it
# with any name. Of the fields of ARC nothing else is read, since ``cv`` says what another filter found.

ARC_SIGNATURES = frozenset({"arc-seal", "arc-message-signature"})
"""Signatures of servers on the way (RFC 8617, section 4.1). Our own server may add them after the check too."""

MAX_TAGS = 40
"""How many tags of a field are read at most; real signatures have about ten."""

_WHITE_SPACE = re.compile(r"\s+")
# What a domain name and a selector (RFC 6376, section 3.1) are made of, with the characters of other alphabets
# (RFC 8616).
_DOMAIN_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)*+")


def signature_tokens(name: str, text: str) -> list[str]:
    """Return tokens for domain and selector of the signature field ``name`` (lower case) with the value ``text``.

    What is no domain name gives no token.
    """
    tags = _parse_tags(text)
    domain, selector = _domain_name(tags.get("d", "")), _domain_name(tags.get("s", ""))
    tokens = [f"{name}:{host}" for host in parent_domains(domain)] if domain else []
    return [*tokens, f"{name}.selector:{selector[:30]}"] if selector else tokens


def _parse_tags(text: str) -> dict[str, str]:
    """Return {name: value} of the first ``MAX_TAGS`` tags; of equal names the first one counts.

    RFC 6376 says that a list with equal names is invalid as a whole. That is for the verifier.
    """
    tags: dict[str, str] = {}
    for tag in text.split(";", MAX_TAGS)[:MAX_TAGS]:
        name, equals, value = tag.partition("=")
        if equals:
            tags.setdefault(name.strip(), value)
    return tags


def _domain_name(value: str) -> str:
    """Return ``value`` in lower case without white space, which may stand anywhere; empty if it is no name."""
    name = _WHITE_SPACE.sub("", value[:300]).lower().strip(".")
    return name if _DOMAIN_NAME.fullmatch(name) else ""


MAX_VALUE_BYTES = 2000
MAX_FIELDS = 100

_HOST = re.compile(r"[\w.-]+")
_HOST_BYTES = bytes(c if c < 128 and (chr(c).isalnum() or c in b"_.-") else 32 for c in bytes(range(256)).lower())
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+|[^\s<>()\[\],;:\"@]+")
_ADDRESS_NAMES = re.compile(r"[\w.+=-]+")
_FIELD_WORD = re.compile(r"[^\s<>()\[\],;\"']+")
_ZONE = re.compile(r"(?:[+-]\d{4}|[A-Z]{1,5})(?:\s*\([^)]{0,20}\))?\s*\Z")
# Fields whose absence is a token.
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
# Fields whose presence says enough. The fields of a mailing list repeat each other: with the value of List-Id
# alone, (1-AUC)% is 0.068 instead of 0.072 on the shuffled SpamAssassin corpus.
_PRESENCE_ONLY_FIELDS = frozenset(
    {"content-type", "references", "in-reply-to", "thread-index"}
    | {f"list-{name}" for name in ("post", "help", "subscribe", "unsubscribe", "archive", "owner")}
)
# The prefixes of other tokens, and of the clue of the limit of automatic learning. All that begin with "url" are
# reserved too.
_RESERVED_PREFIXES = frozenset({"body", "raw", "autolearn"})
# What is not cached: fields that no two messages have in common, long fields (a name may have 64 kB), and layouts
# of more fields or bytes than these limits. So a sender who fills the caches with new fields costs a few megabytes
# of memory, and no more time than their mail takes without caches.
_UNCACHED_FIELDS = frozenset({"date", "message-id"})
_MAX_CACHED_BYTES = 200
_MAX_CACHED_LAYOUT_FIELDS = 50
_MAX_CACHED_LAYOUT_BYTES = 2000


def header_tokens(fields: Sequence[HeaderField]) -> list[bytes]:
    """Return the tokens of the header fields of a message, without those that were added on arrival."""
    sender_fields = [field for field in fields[:MAX_FIELDS] if not is_added_on_arrival(field.name[:80])]
    tokens = list(_message_layout_tokens(fields, sender_fields))
    for field in fields[:MAX_FIELDS]:
        # The layout is without them: a server that adds them after the check would change it for the lesson.
        if field.name in ARC_SIGNATURES:
            tokens += _field_tokens(field)
    hops = 0
    for field in sender_fields:
        hops += field.name == "received"
        if (hops <= 5 or field.name != "received") and field.name not in _PRESENCE_ONLY_FIELDS:
            tokens += field_tokens(field)
    tokens.append(b"received:%d" % min(hops, 9))
    tokens += relation_tokens({field.name: field for field in reversed(sender_fields)})
    return tokens


def field_tokens(field: HeaderField) -> Sequence[bytes]:
    """Return the tokens of one header field."""
    if field.name == "received":
        return received_tokens(_field_text(field))
    is_short = len(field.name) + len(field.value) <= _MAX_CACHED_BYTES
    return _field_tokens_cached(field) if is_short and field.name not in _UNCACHED_FIELDS else _field_tokens(field)


def _field_tokens(field: HeaderField) -> tuple[bytes, ...]:
    return tuple(encode_tokens(_TOKENIZERS_BY_FIELD.get(field.name, other_tokens)(field.name, _field_text(field))))


# Of the fields that are not specific to one message, three in four were seen before.
_field_tokens_cached = lru_cache(maxsize=1024)(_field_tokens)


def _field_text(field: HeaderField) -> str:
    """Return the text of a field; where nothing in it is encoded, the decoder is not needed."""
    value = field.value[:MAX_VALUE_BYTES]
    if b"=?" in value or not value.isascii():
        return only_known(field.text[:MAX_VALUE_BYTES])
    return value.decode("ascii").replace("\r\n", "")


def _message_layout_tokens(
    fields: Sequence[HeaderField], sender_fields: Sequence[HeaderField]
) -> tuple[bytes, ...]:
    if len(fields) <= _MAX_CACHED_LAYOUT_FIELDS:
        written_names = tuple([field.name_as_written for field in sender_fields])
        short = sum(map(len, written_names)) <= _MAX_CACHED_LAYOUT_BYTES
        return _encoded_layout_tokens_cached(written_names) if short else _encoded_layout_tokens(written_names)
    names = [field.name for field in sender_fields]
    present = set(names)
    return tuple(
        encode_tokens(layout_tokens(names, [field.name_as_written for field in fields if field.name in present]))
    )


def _encoded_layout_tokens(written_names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(encode_tokens(layout_tokens([name.lower() for name in written_names], written_names)))


# Each program writes the same fields in the same order: of the layouts in a stream of mail, four in five were
# seen before.
_encoded_layout_tokens_cached = lru_cache(maxsize=512)(_encoded_layout_tokens)


def layout_tokens(names: Sequence[str], written_names: Iterable[str]) -> list[str]:
    """Return tokens for the fields that are present, the spelling and order of names, and missing fields."""
    present = set(names)
    tokens = [f"absent:{name}" for name in _EXPECTED_FIELDS if name not in present]
    tokens += [f"field:{name}" for name in dict.fromkeys(written_names) if len(name) <= 60]
    ordered = [name for name in names if name != "received"]
    tokens += [f"order:{first}>{second}" for first, second in pairwise(ordered)]
    return tokens


def address_tokens(name: str, text: str) -> list[str]:
    """Return tokens for addresses, their domains and local parts, and the words of display names."""
    tokens: list[str] = []
    addresses = 0
    for word in _ADDRESS.findall(text):
        local, at, domain = word.lower().partition("@")
        if not at:
            tokens.append(f"{name}.name:{fold_text(word)[:40]}")
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
    """Return the beginning of an address list with each name and each address replaced by "a"."""
    return _ADDRESS_NAMES.sub("a", text[:100])[:24]


def subject_tokens(name: str, text: str) -> list[str]:
    """Return tokens for the words of the subject, made like those of the body, and for how it is written."""
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
    """Return tokens for hosts, addresses, protocol and server program of one Received field."""
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
    """Return what could be names of hosts, in lower case."""
    if text.isascii():  # a table of bytes is faster than the pattern
        return text.encode("ascii").translate(_HOST_BYTES).decode("ascii").split()
    return _HOST.findall(text.lower())


def _received_host_tokens(host: str) -> tuple[bytes, ...]:
    return tuple(encode_tokens([f"received:{name}" for name in parent_domains(host)]))


# Five in six hosts were seen before.
_received_host_tokens_cached = lru_cache(maxsize=2048)(_received_host_tokens)


def message_id_tokens(name: str, text: str) -> list[str]:
    """Return tokens for the outline of the local part, and for the domain."""
    local, _, domain = text.strip("<> ").rpartition("@")
    return [f"{name}:{text_shape(local)}", *(f"{name}:{host}" for host in parent_domains(domain.lower()))]


def date_tokens(name: str, text: str) -> list[str]:
    """Return tokens for the time zone and the outline of the date."""
    zone = text[-5:]
    if zone[:1] not in {"+", "-"} or not zone[1:].isdecimal() or len(zone) < 5:
        match = _ZONE.search(text[-40:])
        zone = match[0].strip() if match else "none"
    return [f"{name}:{zone}", f"{name}.shape:{text_shape(text, 40)}"]


def program_tokens(name: str, text: str) -> list[str]:
    """Return tokens for the program that wrote the message, as a whole and word by word."""
    words = _FIELD_WORD.findall(text.lower())[:10]
    return [
        f"{name}:{text_shape(text, 40)}",
        f"{name}:{'_'.join(words)[:50]}",
        *(f"{name}:{word[:40]}" for word in words),
    ]


def other_tokens(name: str, text: str) -> list[str]:
    """Return tokens for the first words of any other field, whose prefix is never that of another group."""
    is_reserved = name in _RESERVED_PREFIXES or name.startswith("url")
    prefix = f"field-{name[:18]}" if is_reserved else name[:24]
    return [f"{prefix}:{word[:36]}" for word in _FIELD_WORD.findall(text.lower())[:10]]


def relation_tokens(first: Mapping[str, HeaderField]) -> list[bytes]:
    """Return tokens for whether the senders agree and whether a reply refers to a message.

    ``first`` has the first field of each name.
    """
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
    """Return the last two labels of the domain of the last address in ``text``."""
    host = _HOST.match(text.lower().rpartition("@")[2])
    return ".".join(host[0].strip(".").rsplit(".", 2)[-2:]) if host else ""


_TOKENIZERS_BY_FIELD: dict[str, Callable[[str, str], list[str]]] = {
    **dict.fromkeys(_ADDRESS_FIELDS, address_tokens),
    "subject": subject_tokens,
    "message-id": message_id_tokens,
    "date": date_tokens,
    "x-mailer": program_tokens,
    "user-agent": program_tokens,
    **dict.fromkeys(("dkim-signature", "domainkey-signature", *ARC_SIGNATURES), signature_tokens),
}


# Turns the header as it is written into tokens: each word of it together with the marks around it.
#
# The tokens of ``header_tokens`` say what a field means. These say how it is spelled, which differs between the
# programs that write mail: spaces, quotes, folds, the case of a name. They are a second look at the header, and
# therefore vote as a group of their own. They do most of what character 4-grams of the raw header do, with a
# quarter of the tokens; see docs/experiments.md, "Header as it is written".
#
# Rules: a field that another filter or a mailbox wrote is never read. The work is bounded by ``_MAX_BYTES``.

_MAX_BYTES = 16 * 1024
# A token has neither white space nor control characters, and is UTF-8: a space becomes "_", a tab "~", each other
# control character "^" and each byte beyond ASCII "?". Line ends are removed: how a field is folded shows in the
# white space that begins the next line. The line feed is left to separate the fields, which begin with "^".
_FIELD_START = b"\n^"
_VISIBLE = bytes(
    {0x20: 0x5F, 0x09: 0x7E, 0x0A: 0x0A}.get(c, 0x5E if c < 0x20 or c == 0x7F else 0x3F if c > 0x7F else c)
    for c in range(256)
)
# Up to 12 letters and digits of a word, with 1 to 3 other characters before it and up to 3 behind it. The pattern
# looks ahead and consumes one character alone, so that the marks between two words belong to both of them.
_WORD_IN_CONTEXT = re.compile(rb"(?=([^A-Za-z0-9\n]{1,3}[A-Za-z0-9]{1,12}[^A-Za-z0-9\n]{0,3}))[^A-Za-z0-9\n]")


def raw_header_tokens(fields: Sequence[HeaderField], limit: int) -> tuple[bytes, ...]:
    """Return at most ``limit`` distinct tokens of the header fields as they are written, in their order."""
    written = _FIELD_START + _FIELD_START.join(
        [
            field.name_as_written.encode("ascii", "replace")
            + b":"
            + field.value[:MAX_VALUE_BYTES].replace(b"\r\n", b"")
            for field in fields[:MAX_FIELDS]
            if not is_added_on_arrival(field.name[:80])
        ]
    )
    words = dict.fromkeys(_WORD_IN_CONTEXT.findall(written[:_MAX_BYTES].translate(_VISIBLE)))
    return tuple([RAW_HEADER_PREFIX + word for word in words][:limit])
