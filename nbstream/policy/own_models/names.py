"""Which own models an address has, by the rules of the settings.

Rules: pure; the first rule whose pattern matches the address holds, and an address without a rule has the common
model alone. Addresses are compared in their canonical form. A name is a path: ``example.org/anna`` is the model of
a user above the model ``example.org``. What an address could break out of its place with is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote
from zlib import crc32

from nbstream.mail.addresses import canonical_address, format_address, parse_address
from nbstream.policy.address_patterns import AddressPattern, first_matching_pattern

MAX_LEVELS = 2
"""The most own models of one address: that of the domain, and that of the user."""

MAX_NAME_CHARACTERS = 700
"""The longest name: an address of 320 characters, some of them escaped. A longer one has no own model."""

BUCKETS = 16
"""Groups of keys of own models: on a cluster each group is in a slot of its own."""

_PLACEHOLDER = re.compile(r"\{(address|local|domain)\}")
_LITERAL = re.compile(r"[a-z0-9._@+=-]*")
_SAFE = "@+="
_NAME = re.compile(r"[a-z0-9._~@+=%-]+(?:/[a-z0-9._~@+=%-]+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NameTemplate:
    """A template of names, such as ``{domain}/{local}``. Raises ``ValueError`` for any other text."""

    text: str

    def __post_init__(self) -> None:
        levels = self.text.split("/")
        literals = [_PLACEHOLDER.sub("", level) for level in levels]
        if len(levels) > MAX_LEVELS or not all(levels) or not all(map(_LITERAL.fullmatch, literals)):
            raise ValueError(
                "must be a name of a-z 0-9 . _ - and {address}, {local} or {domain}, with at most one / between "
                "the level of a domain and that of a user"
            )
        # With {local}-{domain} the users a-b@c and a@b-c would have one model.
        if any(len(_PLACEHOLDER.findall(level)) > 1 for level in levels):
            raise ValueError(
                "must have one of {address}, {local} and {domain} in a level: with more of them two users may "
                "have the same name"
            )

    def levels_of(self, local: str, domain: str) -> tuple[str, ...]:
        """Return the names for an address of these two parts, that of the level above first."""
        values = {"local": local, "domain": domain, "address": f"{local}@{domain}"}
        # An address may have bytes that are no UTF-8, in whatever way they came into its text.
        escaped = {name: quote(value, safe=_SAFE, errors="surrogatepass") for name, value in values.items()}
        name = _PLACEHOLDER.sub(lambda match: escaped[match[1]], self.text)
        if len(name) > MAX_NAME_CHARACTERS:
            return ()
        parts = name.split("/")
        return tuple("/".join(parts[: i + 1]) for i in range(len(parts)))


@dataclass(frozen=True, slots=True)
class OwnModelNames:
    """Finds the own models of an address by ``patterns`` and the ``templates`` beside them.

    ``delimiter`` begins the part of a local part that is no part of the user, as in ``anna+news``; empty for none.
    ``aliases`` has the address behind each address that is another one's; both are canonical. ``domain`` is that
    of names without one, such as logins; empty where these are nobody's.
    """

    patterns: tuple[AddressPattern, ...] = ()
    templates: tuple[NameTemplate, ...] = ()
    delimiter: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    domain: str = ""

    def user_of(self, address: str) -> str:
        """Return the canonical address of the user behind ``address``, without alias and delimiter."""
        user = canonical_address(address)
        local, domain = parse_address(self.aliases.get(user, user))
        domain = domain or (self.domain if local else "")
        if self.delimiter and domain:
            local = local.partition(self.delimiter)[0] or local
        user = format_address(local, domain)
        return self.aliases.get(user, user)

    def finds_users_as(self, other: OwnModelNames) -> bool:
        """Return whether ``user_of`` returns the same for each address as that of ``other``."""
        return (self.delimiter, self.aliases, self.domain) == (other.delimiter, other.aliases, other.domain)

    def template_of(self, address: str) -> str:
        """Return the template of the rule that holds for ``address``; empty for none."""
        position = first_matching_pattern(self.patterns, self.user_of(address))
        return "" if position is None else self.templates[position].text

    def levels_of(self, address: str) -> tuple[str, ...]:
        """Return the names of the own models of ``address``, the highest level first; empty for none."""
        user = self.user_of(address)
        position = first_matching_pattern(self.patterns, user)
        if position is None:
            return ()
        local, domain = parse_address(user)
        return self.templates[position].levels_of(local, domain)


def is_own_model_name(text: str) -> bool:
    """Return whether ``text`` can be the name of an own model."""
    return len(text) <= MAX_NAME_CHARACTERS and _NAME.fullmatch(text) is not None


def levels_of_name(name: str) -> tuple[str, ...]:
    """Return the names of the levels of an own model, down to ``name`` itself."""
    parts = name.split("/")
    return tuple("/".join(parts[: i + 1]) for i in range(len(parts)))


def read_alias_lines(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the aliases in the lines of a map file: an address or a login, then a space or ``:``, then its user.

    Empty lines and those that begin with ``#`` are left out. Raises ``ValueError`` with the number of a line that
    is anything else.
    """
    aliases: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.replace(":", " ").split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or "@" not in words[1]:
            raise ValueError(f"line {number} must be ALIAS USER, where USER is an address")
        aliases[canonical_address(words[0])] = canonical_address(words[1])
    return aliases


def bucket_of(name: str) -> int:
    """Return in which of ``BUCKETS`` groups of keys the own model is: models of one group share a hash tag."""
    return crc32(name.encode()) % BUCKETS
