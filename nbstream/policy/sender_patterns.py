"""The senders that an entry of a sender list can name, each in one form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias

from nbstream.mail.addresses import canonical_domain, format_address, parse_address
from nbstream.policy.address_patterns import MAX_PATTERN_LENGTH, AddressPattern

MAX_ENTRIES = 1000
"""How many entries one list may have."""

MAX_SEARCHED_ENTRIES = 100
"""How many of them may be networks, or have wildcards elsewhere than at the beginning of a domain.

These are compared one by one with each message, and the others are looked up.
"""

Network: TypeAlias = IPv4Network | IPv6Network

_DOMAIN_NAME = re.compile(r"(?:\*\.)?(?:[\w-]+\.)++(?!\d+\Z)[\w-]+")  # no name ends in a number (RFC 3696, 2)
_ALLOWED_PATTERN = (
    "must be an address (ann@example.org), a domain (example.org), all below a domain (*.example.org), a network "
    "(192.0.2.0/24), or a pattern of addresses with * and ?"
)


@dataclass(frozen=True, slots=True)
class SenderPattern:
    """The sender of an entry; ``text`` is its one form, in which equal entries are equal.

    ``network`` is set for a network, and ``address_pattern`` for a pattern that has to be searched for.
    """

    text: str
    network: Network | None = None
    address_pattern: AddressPattern | None = None

    @classmethod
    def parse(cls, text: str) -> SenderPattern:
        """Return the pattern that ``text`` names. Raises ValueError, whose text says what is allowed."""
        text = text.strip()
        domain = canonical_domain(text.removeprefix("*@").removeprefix("@"))
        if len(domain) <= MAX_PATTERN_LENGTH and _DOMAIN_NAME.fullmatch(domain):
            return cls(domain)
        if "@" not in text:
            return cls._parse_network(text)
        written = AddressPattern(f"*{text}" if text.startswith("@") else text)
        local, domain = parse_address(written.text)
        pattern = AddressPattern(f"{local}@{domain}")
        if "*" not in pattern.text and "?" not in pattern.text:
            if local and domain:
                return cls(format_address(local, domain))
        elif pattern.matches_any_address:
            return cls(pattern.text, address_pattern=pattern)
        raise ValueError(_ALLOWED_PATTERN)

    @classmethod
    def _parse_network(cls, text: str) -> SenderPattern:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(_ALLOWED_PATTERN) from None
        return cls(str(network), network=network)

    @property
    def is_searched(self) -> bool:
        """Whether the entry is compared with each message, and not looked up."""
        return self.network is not None or self.address_pattern is not None
