"""Turns the results of authentication that our own server found into tokens: SPF, DKIM, DMARC, ARC and the like.

The field is Authentication-Results (RFC 8601). Anybody may write it, so it is read only where two things hold: it
names a server that the configuration trusts, and it stands above the topmost Received field, apart from those that
our own servers are known to write above it. Postfix, for example, puts what most milters write below its own
Received field. Then only our own server keeps forged fields away, by removing them (RFC 8601, section 5).

Rules: nothing here raises, and a field is read once. At most ``MAX_FIELDS`` fields of the trusted servers and
``MAX_RESULTS`` results of each are read. A sender cannot write a field with tokens like these: other fields of
the name Authentication-Results give none.

Our server copies into its results what the sender chose: the local part of an address above all. So whatever could
be read in two ways gives no domain, and a comment is set apart from a value by white space.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import parent_domains

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from nbstream.mail.header_fields import HeaderField

FIELD = "authentication-results"
MAX_FIELDS = 5
MAX_RESULTS = 12
MAX_VALUE_BYTES = 4000
MAX_DOMAIN_CHARACTERS = 100

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
# White space (that of RFC 5322 and no other), a comment, a quoted string (perhaps without its end), or the rest.
_LEXEME = re.compile(r'[ \t\r\n]+|\(|"([^"\\]*+(?:\\.[^"\\]*+)*+)("?)|[^ \t\r\n("]+', re.DOTALL)
_IN_COMMENT = re.compile(r"\\.|[()]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NO_SEPARATORS = str.maketrans(dict.fromkeys(' \t\r\n;=/()"\\', "?"))
_QUOTED = re.compile(r'"([^"]*)"')
# method ["/" version] "=" result, and perhaps a comment
_RESULT = re.compile(r"([a-z]+)(?: ?/ ?[0-9]+)?= ?([a-z]{1,16})\(*+(?![^ ])")
# The beginning of a property, type "." name "=", and of what some servers write between properties, name "=".
_PROPERTY = re.compile(r"(?<= )([a-z][a-z0-9_.-]*)=")
_DOMAIN = re.compile(r"[\w-]+(?:\.[\w-]+)++")


class AuthenticationResult(NamedTuple):
    """What a server found with one method: ``spf``, ``dkim`` and so on, with the result ``pass``, ``fail``, ....

    ``properties`` are those of the field, ``type.name``; all is in lower case.
    """

    method: str
    result: str
    properties: Mapping[str, str]

    def domain(self, *names: str) -> str:
        """Return the domain in the first of these properties that there is; empty without one.

        Without ``names``, it is the one that the method is about. It is what follows the last "@" of the value.
        Servers may write an address as one quoted string; without an "@" a quoted string is a local part.
        """
        names = names or _DOMAIN_PROPERTIES[self.method]
        value = next((self.properties[name] for name in names if name in self.properties), "")
        quoted = _QUOTED.fullmatch(value)
        address = quoted[1] if quoted and "@" in quoted[1] else value
        domain = address.rpartition("@")[2].strip(".<>")
        return domain if len(domain) <= MAX_DOMAIN_CHARACTERS and _DOMAIN.fullmatch(domain) else ""


def trusted_results(
    fields: Sequence[HeaderField], trusted_ids: Collection[str], own_received_fields: int = 0
) -> Iterator[AuthenticationResult]:
    """Yield the results in ``fields``, the header of a message, that a trusted server wrote.

    ``trusted_ids`` are identifiers of servers (authserv-id) in lower case. As many Received fields as
    ``own_received_fields`` stand above their results. A message without a Received field has no results: nothing
    says which of its fields the sender wrote.
    """
    if not trusted_ids or not any(field.name == "received" for field in fields):
        return
    left = MAX_FIELDS
    for field in _fields_above(fields, own_received_fields):
        if left and field.name == FIELD:
            text = only_known(field.value[:MAX_VALUE_BYTES].decode("utf-8", "replace")).lower()
            server, *results = _parts(text)
            if _server_id(server) in trusted_ids:
                left -= 1
                yield from _read_results(results, is_whole=len(field.value) <= MAX_VALUE_BYTES)


def authentication_tokens(
    fields: Sequence[HeaderField], trusted_ids: Collection[str], own_received_fields: int = 0
) -> list[str]:
    """Return tokens for the results in ``fields``; the arguments are those of ``trusted_results``."""
    tokens: dict[str, None] = {}
    for result in trusted_results(fields, trusted_ids, own_received_fields):
        found = f"{FIELD}:{result.method}={result.result}"
        domain = result.domain()
        tokens[found] = None
        tokens |= dict.fromkeys(f"{found}:{name}" for name in (parent_domains(domain) if domain else ()))
    return list(tokens)


def _fields_above(fields: Sequence[HeaderField], received_fields: int) -> Iterator[HeaderField]:
    """Yield the fields above the topmost Received field that does not belong to the first ``received_fields``."""
    for field in fields:
        if field.name == "received":
            if not received_fields:
                return
            received_fields -= 1
        yield field


def _parts(text: str) -> list[str]:
    """Return what stands between the semicolons of a value: the server, then its results.

    The pieces of a part stand one space apart, with none before an equals sign. A comment (RFC 5322, section
    3.2.2) may contain comments; one without an end goes to the end of the value. A comment between white space is
    left out, and one beside other text becomes "(": so it neither ends a value nor begins a property. A quoted
    string keeps its quotes, and each separator in it becomes "?". One without an end becomes an empty one.
    """
    lexemes: list[str] = []
    position = 0
    while match := _LEXEME.match(text, position):
        position = match.end()
        if match[0] == "(":
            position = _comment_end(text, position)
            lexemes.append("(")
        elif match[1] is not None:
            content = _ESCAPED.sub(r"\1", match[1]).translate(_NO_SEPARATORS) if match[2] else ""
            lexemes.append(f'"{content}"')
        else:
            lexemes.append(" " if match[0][0] in " \t\r\n" else match[0])
    return [
        " ".join([piece for piece in part.split(" ") if piece.strip("(")]).replace(" =", "=")
        for part in "".join(lexemes).split(";")
    ]


def _comment_end(text: str, position: int) -> int:
    """Return where the comment ends that began before ``position``."""
    depth = 1
    while mark := _IN_COMMENT.search(text, position):
        position = mark.end()
        depth += {"(": 1, ")": -1}.get(mark[0], 0)
        if not depth:
            return position
    return len(text)


def _server_id(server: str) -> str:
    """Return the identifier of the server that wrote the field; empty without one, or for another version than 1.

    RFC 8601, section 2.2: it comes first, and perhaps a number after it says the version of the syntax.
    """
    name, _, version = server.partition(" ")
    if version not in {"", "1"}:
        return ""
    quoted = _QUOTED.fullmatch(name)
    return quoted[1] if quoted else name.rstrip("(")


def _read_results(parts: Sequence[str], *, is_whole: bool) -> Iterator[AuthenticationResult]:
    """Yield the results; of a value that was cut not the last one."""
    results = [part for part in parts if part]
    for result in results[: MAX_RESULTS if is_whole else min(MAX_RESULTS, len(results) - 1)]:
        match = _RESULT.match(result)
        if match and match[1] in _DOMAIN_PROPERTIES:
            yield AuthenticationResult(match[1], match[2], _properties(result[match.end() :]))


def _properties(text: str) -> dict[str, str]:
    """Return {``type.name``: value} of what follows a result.

    A value goes to the next property. Of two values neither counts: the sender may have written one.
    """
    properties: dict[str, str] = {}
    pieces = _PROPERTY.split(text)
    for name, rest in zip(pieces[1::2], pieces[2::2], strict=True):
        value = rest.strip(" ")
        properties[name] = value if properties.get(name, value) == value else ""
    return properties
