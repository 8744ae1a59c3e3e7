"""Turns the results of authentication that our own server found into tokens: SPF, DKIM, DMARC, ARC and the like.

The field is Authentication-Results (RFC 8601). Anybody may write it, so it is read only where two things hold: it
names a server that the configuration trusts, and it stands above the topmost Received field, apart from those that
our own servers are known to write above it. Postfix, for example, puts what most milters write below its own
Received field. Then only our own server keeps forged fields away, by removing them (RFC 8601, section 5).

Rules: nothing here raises, and a field is read once. At most ``MAX_FIELDS`` fields of the trusted servers and
``MAX_RESULTS`` results of each are read. A sender cannot write a field with tokens like these: other fields of
the name Authentication-Results give none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import parent_domains

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nbstream.mail.header_fields import HeaderField

FIELD = "authentication-results"
MAX_FIELDS = 5
MAX_RESULTS = 12
MAX_VALUE_BYTES = 4000

# The methods whose results are read (RFC 8601, section 2.7; RFC 7489, RFC 8617), and the properties that name the
# domain that each of them is about, the best one first. Servers write results of their own filters into this field
# too: those would be the label itself.
_DOMAIN_PROPERTIES = {
    "spf": ("smtp.mailfrom", "smtp.helo"),
    "dkim": ("header.d", "header.i"),
    "domainkeys": ("header.d", "header.from"),
    "dmarc": ("header.from", "header.d"),
    "arc": (),
    "iprev": (),
    "auth": (),
}
# White space, a comment's end, a quoted string (perhaps without its end), a separator, or a word.
_LEXEME = re.compile(r'\s+|[()]|"([^"\\]*(?:\\.[^"\\]*)*)"?|([;=/])|[^\s()";=/]+', re.DOTALL)
_IN_COMMENT = re.compile(r"\\.|[()]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_RESULT = re.compile(r"[a-z]{1,16}")
_DOMAIN = re.compile(r"[\w-]+(?:\.[\w-]+)++")


def authentication_tokens(
    fields: Sequence[HeaderField], trusted_ids: Collection[str], own_received_fields: int = 0
) -> list[str]:
    """Return tokens for the results in ``fields``, the header of a message, that a trusted server wrote.

    ``trusted_ids`` are identifiers of servers (authserv-id) in lower case. As many Received fields as
    ``own_received_fields`` stand above their results. A message without a Received field has no tokens: nothing
    says which of its fields the sender wrote.
    """
    if not trusted_ids or not any(field.name == "received" for field in fields):
        return []
    tokens: dict[str, None] = {}
    left = MAX_FIELDS
    for field in _fields_above(fields, own_received_fields):
        if left and field.name == FIELD:
            words = _words(only_known(field.value[:MAX_VALUE_BYTES].decode("utf-8", "replace")).lower())
            if _server(words) in trusted_ids:
                left -= 1
                tokens |= dict.fromkeys(_result_tokens(words, is_whole=len(field.value) <= MAX_VALUE_BYTES))
    return list(tokens)


def _fields_above(fields: Sequence[HeaderField], received_fields: int) -> Iterator[HeaderField]:
    """Yield the fields above the topmost Received field that does not belong to the first ``received_fields``."""
    for field in fields:
        if field.name == "received":
            if not received_fields:
                return
            received_fields -= 1
        yield field


def _words(text: str) -> list[str]:
    """Return words, contents of quoted strings and the separators ``;``, ``=``, ``/`` of a value without comments.

    A comment (RFC 5322, section 3.2.2) may contain comments; one without an end goes to the end of the value. A
    separator in a quoted string is no separator, and becomes a space.
    """
    words: list[str] = []
    position = 0
    while match := _LEXEME.match(text, position):
        position = match.end()
        if match[0] == "(":
            position = _comment_end(text, position)
        elif match[1] is not None:
            words.append(_ESCAPED.sub(r"\1", match[1]).translate(_NO_SEPARATORS))
        elif match[2] or not (match[0].isspace() or match[0] == ")"):
            words.append(match[0])
    return words


_NO_SEPARATORS = str.maketrans(";=/", "   ")


def _comment_end(text: str, position: int) -> int:
    """Return where the comment ends that began before ``position``."""
    depth = 1
    while mark := _IN_COMMENT.search(text, position):
        position = mark.end()
        depth += {"(": 1, ")": -1}.get(mark[0], 0)
        if not depth:
            return position
    return len(text)


def _server(words: Sequence[str]) -> str:
    """Return the identifier of the server that wrote the field; empty without one, or for another version than 1.

    RFC 8601, section 2.2: it comes first, and perhaps a number after it says the version of the syntax.
    """
    first = words[: words.index(";")] if ";" in words else words
    return first[0] if first and first[1:] in ([], ["1"]) else ""


def _result_tokens(words: Sequence[str], *, is_whole: bool) -> Iterator[str]:
    """Yield the tokens of the results after the identifier; of a value that was cut not the last result."""
    results = list(_split_results(words))
    for result in results[: MAX_RESULTS if is_whole else min(MAX_RESULTS, len(results) - 1)]:
        # method ["/" version] "=" result, then properties: type "." name "=" value
        method, *rest = result
        if method not in _DOMAIN_PROPERTIES:
            continue
        if rest[:1] == ["/"]:
            rest = rest[2:]
        if len(rest) < 2 or rest[0] != "=" or not _RESULT.fullmatch(rest[1]):
            continue
        found = f"{method}={rest[1]}"
        yield f"{FIELD}:{found}"
        domain = _domain(_properties(rest[2:]), _DOMAIN_PROPERTIES[method])
        yield from (f"{FIELD}:{found}:{name}" for name in (parent_domains(domain) if domain else ()))


def _split_results(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of each result; the identifier before the first ``;`` is none."""
    starts = [number for number, word in enumerate(words) if word == ";"]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        if end > start + 1:
            yield list(words[start + 1 : end])


def _properties(words: Sequence[str]) -> dict[str, str]:
    """Return {``type.name``: value} of the words after a result; the reason is one of them, without a type."""
    properties: dict[str, str] = {}
    for number, word in enumerate(words):
        if word == "=" and 0 < number < len(words) - 1:
            properties.setdefault(words[number - 1], words[number + 1])
    return properties


def _domain(properties: dict[str, str], names: Sequence[str]) -> str:
    """Return the domain in the first of the properties that there is; empty without one."""
    value = next((properties[name] for name in names if name in properties), "")
    domain = value.rpartition("@")[2].strip(".<>")
    return domain if _DOMAIN.fullmatch(domain) else ""
