r"""Mail addresses: their canonical form, and the addresses in header fields.

Rules: two addresses with one canonical form belong to the same mailbox, and only canonical forms are compared.
What is passed on keeps the spelling that came in.

- A local part loses the quotation marks and backslashes that say nothing (RFC 5321, 4.1.2): ``"ann"`` and
  ``"an\n"`` are ``ann``. One that needs quotation marks, such as ``"ann b"``, has them.
- Upper and lower case are the same. The Kelvin sign stays in a local part: it alone of all characters beyond ASCII
  has a lower case in ASCII, and a mail server need not take it for a k.
- A domain has the ASCII form of IDNA (UTS #46), and no dot at its end. A label that IDNA does not allow is only
  written in lower case.
- Angle brackets and a source route (RFC 5321, C) are left out.
- A name without a domain, such as a login, is treated as a local part that needs no quotation marks.

No text is refused, and the work is linear in its length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbstream.mail.header_fields import HeaderField

_MAX_LABEL_CHARACTERS = 63  # RFC 1035, 2.3.4; IDNA makes them no fewer
_LABEL_ENDS = ".\N{IDEOGRAPHIC FULL STOP}\N{FULLWIDTH FULL STOP}\N{HALFWIDTH IDEOGRAPHIC FULL STOP}"
_LABEL_END = re.compile(f"[{_LABEL_ENDS}]")
_KELVIN_SIGN = "\N{KELVIN SIGN}"

_ATOM = r"[^\x00-\x20\x7f()<>@,;:\\\".\[\]]++"
_AROUND = "<> \t\r\n"
# Without possessive groups, which match wrongly within each other in Python 3.11.2; so is ``_WORDS``.
_ROUTE = re.compile(r'(?:[<>\s]*@[^:"]*:)+')
_DOT_ATOM = re.compile(rf"{_ATOM}(?:\.{_ATOM})*+")
_WORDS = re.compile(r'(?:[^"\\]|\\.|"(?:[^"\\]|\\.)*")*', re.DOTALL)
_QUOTING = re.compile(r'\\(.)|"', re.DOTALL)
_QUOTED_CHARACTER = re.compile(r'["\\]')
# Most addresses are in their canonical form.
_PLAIN = re.compile(r"[a-z0-9_+=-]++(?:\.[a-z0-9_+=-]++)*+@[a-z0-9-]++(?:\.[a-z0-9-]++)*+")


def canonical_address(address: str) -> str:
    """Return the one form of an address, or of a name without a domain; empty for the null sender."""
    return address if _PLAIN.fullmatch(address) else format_address(*parse_address(address))


def parse_address(address: str) -> tuple[str, str]:
    """Return the local part without quotation, and the domain, both in their canonical form.

    The domain is empty for a name without one.
    """
    text = address.strip(_AROUND)
    if (route := _ROUTE.match(text)) and "@" in (rest := text[route.end() :]):
        text = rest.lstrip(_AROUND)
    local, _, domain = text.rpartition("@")
    if not domain or domain == text:
        unquoted = _unquoted(text)
        return _lower_case(unquoted if _DOT_ATOM.fullmatch(unquoted) and text[0] == '"' else text), ""
    return _lower_case(_unquoted(local)), canonical_domain(domain)


def format_address(local: str, domain: str) -> str:
    """Return the address of these two parts, which are canonical; the domain is empty for a name without one."""
    if not domain:
        return local
    if local and not _DOT_ATOM.fullmatch(local):
        local = '"' + _QUOTED_CHARACTER.sub(r"\\\g<0>", local) + '"'
    return f"{local}@{domain}"


def canonical_domain(domain: str) -> str:
    """Return the one form of a domain, of a part of one, or of the literal of an address."""
    domain = domain.rstrip(_LABEL_ENDS + _AROUND) or domain
    return domain.lower() if domain.isascii() else ".".join(map(_ascii_label, _LABEL_END.split(domain)))


def _ascii_label(label: str) -> str:
    if label.isascii() or len(label) > _MAX_LABEL_CHARACTERS:
        return _lower_case(label)
    import idna  # noqa: PLC0415 - few addresses need it, and its tables take some milliseconds

    try:
        return idna.encode(label, uts46=True).decode("ascii")
    except UnicodeError:  # also the base of the errors of IDNA
        return _lower_case(label)


def _lower_case(text: str) -> str:
    return text.lower() if text.isascii() else _KELVIN_SIGN.join(map(str.lower, text.split(_KELVIN_SIGN)))


def _unquoted(local: str) -> str:
    """Return a local part without its quotation, and one that is quoted wrongly as it is."""
    return _QUOTING.sub(lambda match: match[1] or "", local) if _WORDS.fullmatch(local) else local


MAX_FIELD_BYTES = 2000
"""The longest field of addresses that is read."""

_MAX_FROM_ADDRESSES = 20

# Fields are read on their bytes: an encoded word is no address, whatever it says. Quoted strings and comments are
# taken out first. A word of a local part stays, and its special characters are moved where they are none. A quoted
# string without an end goes to the end of the field, so that nothing is read twice, and leaves a quote.
_QUOTED_OR_COMMENT = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:(")(\s*@|\.)?)?|\([^()]*\)', re.DOTALL)
_SPECIALS = r"\s<>@,;:()\[\]\\\""
_SPECIAL = re.compile(f"[{_SPECIALS}]")
_MOVED = re.compile("[\U00100000-\U0010ffff]")
_MOVED_BY = 0x100000
_LABEL = r"[^\s\x00-,./:-@\[-^`{-\x7f]+"
_ADDRESS = rf"[^{_SPECIALS}]+@{_LABEL}(?:\.{_LABEL})*+\.?"
# It consumes what is no address, so that nothing is read twice.
_ANY_ADDRESS = re.compile(rf"({_ADDRESS})|[^{_SPECIALS}]+")
_IN_BRACKETS = re.compile(rf"<\s*({_ADDRESS})\s*>")
_ONE_ADDRESS = re.compile(rf"\s*({_ADDRESS})\s*|[^<>,;:()\[\]\\\"]*<\s*({_ADDRESS})\s*>\s*")


def read_from(fields: Iterable[HeaderField]) -> tuple[tuple[str, ...], bool]:
    """Return the addresses of the From fields, and whether there is one, which everybody reads alike."""
    values = [field.value for field in fields if field.name == "from"][:_MAX_FROM_ADDRESSES]
    texts = [_text_of_field(value[:MAX_FIELD_BYTES]) for value in values]
    if len(values) == 1 and len(values[0]) <= MAX_FIELD_BYTES and (match := _ONE_ADDRESS.fullmatch(texts[0])):
        return (_read_address(match[1] or match[2]),), True
    return tuple(_find_addresses(texts))[:_MAX_FROM_ADDRESSES], False


def find_addresses(values: Iterable[bytes], max_bytes: int = MAX_FIELD_BYTES) -> list[str]:
    """Return the addresses in the values of fields such as To; of each value so much is read."""
    texts = [_text_of_field(value[:max_bytes]) for value in values]
    return _find_addresses([address for text in texts for address in text.split(",")])


def _find_addresses(texts: Iterable[str]) -> list[str]:
    addresses = [address for text in texts for address in _IN_BRACKETS.findall(text) or _ANY_ADDRESS.findall(text)]
    return list(dict.fromkeys(map(_read_address, filter(None, addresses))))


def _text_of_field(value: bytes) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[1] is not None and not match[2]:
            return '"'
        if not match[3]:
            return " "
        word = _QUOTING.sub(lambda quoting: quoting[1] or "", match[1])
        return _SPECIAL.sub(lambda special: chr(ord(special[0]) + _MOVED_BY), word) + match[3].strip()

    return _QUOTED_OR_COMMENT.sub(replacement, value.decode("utf-8", "replace"))


def _read_address(text: str) -> str:
    local, _, domain = text.rpartition("@")
    local = _MOVED.sub(lambda moved: chr(ord(moved[0]) - _MOVED_BY), local)
    return format_address(_lower_case(local), canonical_domain(domain))
