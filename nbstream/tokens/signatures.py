"""Turns the fields of signatures into tokens: the domain that signed and its selector.

The fields are DKIM-Signature (RFC 6376), DomainKey-Signature (RFC 4870), ARC-Seal and ARC-Message-Signature (RFC
8617). All four are tag lists, ``name=value; name=value`` (RFC 6376, section 3.2), with the domain in ``d`` and the
selector in ``s``.

Rules: nothing here raises; a field is read once. No signature is verified: whoever writes a message may sign it
with any name. Of the fields of ARC nothing else is read, since ``cv`` says what another filter found.
"""

from __future__ import annotations

import re

from nbstream.tokens.urls import parent_domains

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
