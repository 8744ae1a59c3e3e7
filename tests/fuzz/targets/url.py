"""Links: bounded in number and length, with hosts that are hosts."""

from __future__ import annotations

from itertools import pairwise

from nbstream.tokens.urls import MAX_LINK_CHARACTERS, MAX_LINKS, find_links, link_tokens, parent_domains
from tests.fuzz.target import FuzzTarget


def _check(data: bytes) -> None:
    source = data.decode("utf-8", "replace").lower()
    links = find_links(source)
    assert len(links) == len(set(links)) <= MAX_LINKS
    for link in links:
        assert len(link) <= MAX_LINK_CHARACTERS + 20
        tokens = link_tokens(link)
        assert link_tokens(link) == tokens
        assert len(tokens) <= 150
        assert all(token.startswith(("url:", "url.")) for token in tokens)
    domains = parent_domains(source)
    assert len(domains) <= 4
    assert all(domain in source for domain in domains)
    host = source.strip(".")
    if domains and host.isascii() and len(host) < 90 and not host[-1:].isdigit():  # no address
        assert all(longer.endswith(shorter) for longer, shorter in pairwise(domains))


TARGET = FuzzTarget(
    _check,
    (
        b"http://www.example.org/path/to?query=1 https://user:pw@[2001:db8::1]:8080/x www.example.com",
        b'<a href="ftp://192.0.2.1/%41">://x ://y http:///a http://0x7f000001/ http://3232235777',
        b"&#104;ttp&#58;//a.example http://%65xample.com:99999/ http://b.example?x",
        b"http://" + b"a." * 200 + b"example",
        b" ".join(b"http://h%d.example/" % number for number in range(120)),
        "http://bücher.example/ä http://xn--bcher-kva.example。".encode(),
        b"a.b.c.d.e.example.org",
    ),
    words=(b"http://", b"https://", b"www.", b"://", b"&#", b"&#x", b"@", b"?", b"%2e", b"[::1]", b"&amp;"),
    mutations=1500,
)
