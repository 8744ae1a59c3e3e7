"""Patterns of addresses: the first one that matches an address holds.

The parts of an input stand on lines: two patterns, and addresses.
"""

from __future__ import annotations

from nbstream.policy.address_patterns import AddressPattern, first_matching_pattern
from tests.fuzz.target import FuzzTarget


def _check(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    try:
        one, other = AddressPattern(lines[0]), AddressPattern(lines[1])
    except (ValueError, IndexError):
        return
    for address in (*lines[2:6], lines[0], lines[1], "a@b"):
        first = first_matching_pattern([one, other], address)
        assert first == (0 if one.matches(address) else 1 if other.matches(address) else None)
        assert one.matches(address) == one.matches(address.lower())
        if other.matches(address):
            assert other.matches_any_address


TARGET = FuzzTarget(
    _check,
    (
        b"*@example.org\nann@example.org\nann@example.org\nbob@example.org\nann@example.com",
        b"a*b?c@*\n*@*.example.net\na1bxc@d\n@example.net\na@b@c.example.net",
        b"*\n?@?\na@b\n@\na@\n@b",
        b"[a]*@x\n[*@x\n[a]b@x\nab@x",
        "Dü*@ß.example\ndü@SS.example\ndü@ß.example\nDÜ@ß.example".encode(),
        b"***a***@***b***\n*a*@*b*\nxay@zbz",
    ),
    words=(b"*", b"?", b"@", b"\n", b"[", b"!", b"\\", "ß".encode(), "İ".encode()),
    max_bytes=300,
    mutations=800,
)
