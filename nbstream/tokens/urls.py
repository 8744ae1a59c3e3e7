"""Turns links into tokens: host, parent domains, pieces of the path, and what is unusual in the rest.

Rules: links are searched by their literal beginning, so the search reads the text once. At most ``MAX_LINKS``
links and ``MAX_LINK_CHARACTERS`` characters of each of them are read: of more links, the first and the last ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote

from nbstream.tokens.html import References, resolve_character_references
from nbstream.tokens.unicode import only_known, without_ignorable

MAX_LINKS = 100
MAX_LINK_CHARACTERS = 300
MAX_HOST_CHARACTERS = 100
MAX_NAME_CHARACTERS = 253
MAX_RESOLVED_CHARACTERS = 1 << 18
"""In how many characters of a message references are resolved to find the links that they hide."""
_HALF = MAX_LINKS // 2

# Several patterns instead of one with a choice: a pattern with a literal beginning is searched much faster.
_AFTER_SCHEME = re.compile(rf"://[^\s<>\"'\\]{{1,{MAX_LINK_CHARACTERS}}}")
_WITHOUT_SCHEME = re.compile(rf"www\.[^\s<>\"'\\]{{1,{MAX_LINK_CHARACTERS}}}")
# A link without a scheme in an attribute or a style: it takes that of the page.
_RELATIVE = re.compile(rf"//(?<=[\"'=(]//)[^\s<>\"'\\]{{1,{MAX_LINK_CHARACTERS}}}")
# Browsers read "\" as "/" here, and leave tabs and line ends out of a quoted link.
_BACKSLASHES = (":\\\\", ":\\/", ":/\\")
_LEFT_OUT = dict.fromkeys(map(ord, "\t\r\n"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PATH_WORD = re.compile(r"[^\W_]+")
_IP_ADDRESS = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[[0-9a-f:.]+\]|\d{8,10}|0x[0-9a-f]{2,8}")


def find_links(
    source: str, max_resolved: int = MAX_RESOLVED_CHARACTERS, references: References | None = None
) -> list[str]:
    """Return the distinct links in text or HTML source (lower case).

    Character references are resolved in ``max_resolved`` characters, half of them at each end. Links are read as
    browsers read them (https://url.spec.whatwg.org/#concept-basic-url-parser).
    """
    if "&#" in source:
        end = max(max_resolved // 2, len(source) - max_resolved // 2)
        start = min(max_resolved // 2, len(source))
        resolve = (references or References()).resolve
        source = resolve(source[:start]) + source[start:end] + resolve(source[end:])
    source = without_ignorable(source)
    if "\\" in source:
        for slashes in _BACKSLASHES:
            source = source.replace(slashes, "://")
    links: dict[str, None] = {}
    for link in _bounded_matches(_AFTER_SCHEME, source):
        before = source[max(0, link.start() - 9) : link.start()]
        scheme = before[max(len(before.rstrip(_LETTERS)), len(before) - 8) :]
        quote = before[len(before) - len(scheme) - 1 :][:1] if len(scheme) < len(before) else ""
        links[scheme + _whole_link(link, quote)] = None
    for link in _bounded_matches(_WITHOUT_SCHEME, source):
        if link.string[link.start() - 1 : link.start()] != "/":
            links["http://" + link[0]] = None
    for link in _bounded_matches(_RELATIVE, source):
        if "." in link[0].lstrip("/").partition("/")[0]:
            links["http:" + link[0]] = None
    return list(links) if len(links) <= MAX_LINKS else [*islice(links, _HALF), *list(links)[-_HALF:]]


def _whole_link(link: re.Match[str], quote: str) -> str:
    """Return the link that ``_AFTER_SCHEME`` found; a quoted one goes on behind tabs and line ends."""
    source = link.string
    if not quote or quote not in "\"'" or source[link.end() : link.end() + 1] not in ("\t", "\r", "\n"):
        return link[0]
    quoted = source[link.start() : link.start() + 2 * MAX_LINK_CHARACTERS].partition(quote)[0]
    whole = _AFTER_SCHEME.match(quoted.translate(_LEFT_OUT))
    return whole[0] if whole else link[0]


def _bounded_matches(pattern: re.Pattern[str], source: str) -> list[re.Match[str]]:
    """Return the matches of ``pattern``; of more than ``MAX_LINKS`` the first and the last ones, half of each."""
    found = pattern.finditer(source)
    first = list(islice(found, _HALF))
    last: deque[re.Match[str]] = deque(maxlen=_HALF)
    for match in found:  # link by link, so that other threads can run in between
        last.append(match)
    return [*first, *last]


@lru_cache(maxsize=1024)
def link_tokens(link: str) -> tuple[str, ...]:
    """Return the tokens of one link that ``find_links`` returned.

    They are cached because two in five links were seen before: those of lists, of campaigns, of schemas.
    """
    resolved = without_ignorable(resolve_character_references(link)).translate(_LEFT_OUT)
    scheme, _, rest = only_known(resolved).partition("://")
    authority, _, path = rest.lstrip("/").partition("/")
    authority, question, query = authority.partition("#")[0].partition("?")
    user, at, host = authority.rpartition("@")
    host, _, port = host.partition(":") if not host.startswith("[") else (host, "", "")
    if not host.isascii():  # as a browser maps it: full-width letters and stops (Unicode Technical Standard 46)
        host = unicodedata.normalize("NFKC", host).casefold().replace("\u3002", ".")
    tokens = [f"url:{name}" for name in parent_domains(host)]
    tokens += [f"url.path:{word}" for word in _PATH_WORD.findall(path[:100]) if len(word) <= 20]
    if scheme != "http":
        tokens.append(f"url.scheme:{scheme}")
    if at:
        tokens.append(f"url.user:{len(user) // 8}")
    if port and port not in {"80", "443"}:
        tokens.append(f"url.port:{port[:5]}")
    if "%" in host:
        tokens += ["url.host:escaped", *(f"url:{name}" for name in parent_domains(unquote(host)))]
    if _IP_ADDRESS.fullmatch(host):
        tokens.append("url.host:address")
    if question or query or "?" in path:
        tokens.append("url.query")
    return tuple(tokens)


@lru_cache(maxsize=2048)
def parent_domains(host: str) -> tuple[str, ...]:
    """Return ``host`` and its parent domains of at least two labels, or the prefixes of an IPv4 address.

    Of a host with more than ``MAX_HOST_CHARACTERS`` characters whole labels at its end are read: who owns a domain
    chooses all that stands before it. A host that is longer than a name may be (RFC 1035, section 2.3.4), or that
    ends with a longer label, has no parent domains.
    """
    host = host.strip(".")
    if len(host) > MAX_HOST_CHARACTERS:
        host = host[-MAX_HOST_CHARACTERS:].partition(".")[2] if len(host) <= MAX_NAME_CHARACTERS else ""
        if "." not in host:
            return ()
    labels = host.split(".")
    if len(labels) == 4 and all(label.isdigit() for label in labels):
        return tuple([".".join(labels[:length]) for length in (4, 3, 2)])
    return tuple([".".join(labels[first:]) for first in range(max(0, len(labels) - 4), max(1, len(labels) - 1))])
