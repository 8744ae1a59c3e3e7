"""Shell-like patterns over whole mail addresses.

Rules: ``*`` stands for any characters, ``?`` for one character, and every other character for itself. What is
compared is the canonical form of both without quotation marks: upper and lower case are the same. An address has
something before its last ``@``, and behind it something without ``@``; no pattern matches anything else.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias

from nbstream.mail.addresses import canonical_domain, format_address, parse_address

MAX_PATTERN_LENGTH = 320
"""The longest pattern: an address has at most 64 characters, an ``@`` and 255 characters (RFC 5321 4.5.3.1)."""

_WILDCARD = re.compile(r"[*?]")
_PATTERN_TEXT = re.compile(rf"[^\s<>\x00-\x1f\x7f]{{1,{MAX_PATTERN_LENGTH}}}")


@dataclass(frozen=True)
class AddressPattern:
    """A pattern of addresses. ``text`` is the pattern as it was written.

    Raises ValueError for a pattern that is too long, or has characters that no address has.
    """

    text: str

    def __post_init__(self) -> None:
        if not _PATTERN_TEXT.fullmatch(self.text) or not self.text.isprintable():
            raise ValueError(
                f"must be 1 to {MAX_PATTERN_LENGTH} characters of an address, "
                "with * for any and ? for one character"
            )
        domain = self.text.rpartition("@")[2]
        if any(_WILDCARD.search(label) and not label.isascii() for label in domain.split(".")):
            raise ValueError("must have no * or ? beside letters beyond ASCII: write that label in its ASCII form")

    def matches(self, address: str) -> bool:
        """Whether the pattern matches ``address``. The time is linear in its length times the number of ``*``."""
        return first_matching_pattern([self], address) == 0

    @property
    def matches_any_address(self) -> bool:
        """Whether there is an address that the pattern matches: some character of it can be the last ``@``."""
        return any(
            letter == "*" or (letter in "@?" and 0 < i < len(self.text) - 1)
            for i, letter in enumerate(self.text)
            if "@" not in self.text[i + 1 :]
        )

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The regular expression that matches a canonical address without quotation marks."""
        local, domain = parse_address(self.text)
        text = f"{local}@{domain}" if domain else local
        # Its atomic groups give nothing back: many stars over a long address take no more than their product.
        return re.compile(fnmatch.translate(re.sub(r"\*+", "*", text).replace("[", "[[]")))


def first_matching_pattern(patterns: Sequence[AddressPattern], address: str) -> int | None:
    """Return the index of the first pattern that matches ``address``, or None where none does."""
    local, domain = parse_address(address)
    if not local or not domain:
        return None
    text = f"{local}@{domain}"
    return next((i for i, pattern in enumerate(patterns) if pattern.expression.match(text)), None)


# The senders that an entry of a sender list can name, each in one form.

MAX_ENTRIES = 1000
"""How many entries one list may have."""

MAX_NETWORKS = 100
"""How many of them may be networks: these are compared one by one with each message, the others are looked up."""

Network: TypeAlias = IPv4Network | IPv6Network

_DOMAIN_NAME = re.compile(r"(?:\*\.)?(?:[\w-]+\.)++(?!\d+\Z)[\w-]+")  # no name ends in a number (RFC 3696, 2)
_ALLOWED_PATTERN = (
    "must be an address (ann@example.org), a domain (example.org), all below a domain (*.example.org), "
    "or a network (192.0.2.0/24)"
)


@dataclass(frozen=True, slots=True)
class SenderPattern:
    """The sender of an entry; ``text`` is its one form, in which equal entries are equal."""

    text: str
    network: Network | None = None

    @classmethod
    def parse(cls, text: str) -> SenderPattern:
        """Return the pattern that ``text`` names. Raises ValueError, whose text says what is allowed."""
        text = text.strip()
        domain = canonical_domain(text.removeprefix("*@").removeprefix("@"))
        if len(domain) <= MAX_PATTERN_LENGTH and _DOMAIN_NAME.fullmatch(domain):
            return cls(domain)
        if "@" in text:
            local, domain = parse_address(text)
            is_address = _PATTERN_TEXT.fullmatch(text) and text.isprintable() and not _WILDCARD.search(text)
            if is_address and local and domain:
                return cls(format_address(local, domain))
            raise ValueError(_ALLOWED_PATTERN)
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(_ALLOWED_PATTERN) from None
        return cls(str(network), network)
