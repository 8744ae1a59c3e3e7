"""Groups of tokens by their prefix: what of a message is looked at to see whether it is new.

Rules: pure. The names of private tokens begin with the prefix of one token of the same group, so that all that
is said of a token by its prefix is said of its name too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

GroupName: TypeAlias = Literal["structure", "sender", "form", "layout"]

NOVELTY_GROUPS: tuple[GroupName, ...] = ("structure", "sender", "form", "layout")
"""The groups of the head, in the order of all arrays of them.

The structure are types, encodings and sizes of parts; the sender are addresses and hosts; the form is how fields
are written; the layout is which fields there are, and in which order. Neither display names nor recipients are
among them, nor other fields, which a sender may write as they like.
"""

_STRUCTURE, _SENDER, _FORM, _LAYOUT = range(len(NOVELTY_GROUPS))

_GROUPS_BY_PREFIX = {
    **dict.fromkeys(
        (
            *("tree", "parts", "kind", "type", "charset", "encoding", "disposition"),
            *("file.shape", "file.type", "content-type", "boundary", "size", "hidden"),
        ),
        _STRUCTURE,
    ),
    **dict.fromkeys(
        (
            *("from", "reply-to", "sender", "return-path", "received"),
            *("message-id", "dkim-signature", "domainkey-signature", "list-id"),
        ),
        _SENDER,
    ),
    **dict.fromkeys(("date", "same-domain", "reply"), _FORM),
    **dict.fromkeys(("field", "order", "absent"), _LAYOUT),
}
_FORM_ASPECTS = ("shape", "local", "addresses", "length", "end", "capitals", "spaces")

TEXT_PREFIXES = (b"body:", b"subject:")
"""What the tokens of words of body and subject begin with."""

NOVELTY_PRIVATE_PREFIXES = (b"type:#", b"from:#", b"date:#", b"field:#")
"""What the names of private tokens of each of ``NOVELTY_GROUPS`` begin with."""

OTHER_PRIVATE_PREFIXES = (b"head:#", b"subject:#", b"body:#", b"url:#", b"raw:#")
"""What the names of all other private tokens begin with."""


def novelty_group(token: bytes) -> int | None:
    """Return the number of the group of a token of the head; None for a token of no group."""
    return _group_of_prefix(token.partition(b":")[0])


@lru_cache(maxsize=1024)
def _group_of_prefix(prefix: bytes) -> int | None:
    name = prefix.decode("utf-8", "replace")
    group = _GROUPS_BY_PREFIX.get(name)
    if group is None and name.rpartition(".")[2] in _FORM_ASPECTS and "." in name:
        return _FORM
    return group
