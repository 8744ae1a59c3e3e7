"""A message stays the same message through any hops, and no other message is taken for it."""

from __future__ import annotations

import email
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbstream.mail.message import Message
from tests.corpora import trec_stream
from tests.letters import letters
from tests.mail.hops import ENCODINGS, HOPS, Hop, feeds

RICH = (
    "Message-ID: <rich.1@example.org>\nDate: Mon, 3 Feb 2025 10:20:30 +0100\n"
    "From: =?utf-8?q?J=C3=B6rg?= Example <j@example.org>\nTo: you@example.net\n"
    "Subject: =?utf-8?b?R3LDvMOfZQ==?= and a\n long subject\nMIME-Version: 1.0\n"
    'Content-Type: multipart/mixed;\n boundary="=_outer part"\n\nPreamble.\n--=_outer part\n'
    "Content-Type: multipart/alternative; boundary=inner\n\n--inner\nContent-Type: text/plain; charset=utf-8\n"
    "Content-Transfer-Encoding: 8bit\n\nGrüße = 100 % für dich.  \nSecond line \n.dot\n\n--inner\n"
    "Content-Type: text/html; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n"
    "<p>Gr=FC=DFe: a long line that was broken =\nin two</p>\n--inner--\n--=_outer part\n"
    "Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\nJVBERi0xLjcKJcOkw7zDtsOf\n"
    "--=_outer part\nContent-Type: message/rfc822\n\nSubject: within\nMessage-ID: <within@example.org>\n\n"
    "The message within.\n--=_outer part--\nEpilogue.\n"
)
ORIGINALS = [RICH.encode(), *(raw for _, raw in letters(40))]

originals = st.sampled_from(ORIGINALS)
ways = st.tuples(st.lists(st.sampled_from(HOPS + ENCODINGS), max_size=8), st.randoms(use_true_random=False))


def through(hops: Sequence[Hop], raw: bytes, draw: Random) -> bytes:
    for hop in hops:
        raw = hop(raw, draw)
    return raw


def key(raw: bytes) -> str:
    return Message.parse(raw).key


@pytest.mark.parametrize("hop", [*HOPS, *ENCODINGS, feeds], ids=lambda hop: hop.__name__)
def test_each_kind_of_hop_leaves_the_message_the_same(hop: Hop) -> None:
    raw = Message.parse(RICH.encode()).raw
    passed = hop(raw, Random(3))

    assert passed != raw
    assert key(passed) == key(raw)


@settings(max_examples=150, deadline=None)
@given(raw=originals, way=ways, last=st.sampled_from([feeds, None]))
def test_any_way_through_hops_leaves_the_message_the_same(
    raw: bytes, way: tuple[list[Hop], Random], last: Hop | None
) -> None:
    hops, draw = way

    assert key(through([*hops, *([last] if last else [])], Message.parse(raw).raw, draw)) == key(raw)


def test_letters_that_differ_have_different_keys() -> None:
    assert len({key(raw) for raw in ORIGINALS}) == len(ORIGINALS)


@settings(max_examples=100, deadline=None)
@given(raw=originals, way=ways, place=st.floats(0, 1, exclude_max=True))
def test_one_other_letter_in_the_body_makes_another_message_of_the_same_message_id(
    raw: bytes, way: tuple[list[Hop], Random], place: float
) -> None:
    _, _, body = raw.partition(b"\n\n")
    spoken = [found.start() for found in re.finditer(rb"(?<= )[a-z](?=[a-z]+ )", body)]
    spot = len(raw) - len(body) + spoken[int(place * len(spoken))]
    other = raw[:spot] + (b"x" if raw[spot : spot + 1] != b"x" else b"y") + raw[spot + 1 :]
    hops, draw = way

    assert Message.parse(other).first_field("message-id") == Message.parse(raw).first_field("message-id")
    assert key(through(hops, Message.parse(other).raw, draw)) != key(raw)


# Real repeats


def plain(raw: bytes, name: bytes) -> bytes:
    """The first field of that name without white space, as it is written."""
    found = re.search(rb"(?im)^" + name + rb"[ \t]*:(.*(?:\n[ \t].*)*)", raw.partition(b"\n\n")[0])
    return re.sub(rb"\s", b"", found[1]) if found else b""


def body(raw: bytes) -> bytes:
    return re.sub(rb"\s", b"", raw.partition(b"\n\n")[2])


@pytest.mark.soak
def test_real_mail_that_came_twice_is_the_same_message_and_a_message_id_alone_makes_none(tmp_path: Path) -> None:
    by_id: dict[bytes, list[bytes]] = defaultdict(list)
    for _, raw in trec_stream(tmp_path, 20_000):
        by_id[plain(raw, b"message-id")].append(raw)
    by_id.pop(b"", None)

    same, other = 0, 0
    for group in by_id.values():
        for one, two in combinations(group, 2):
            repeated = all(plain(one, name) == plain(two, name) for name in (b"date", b"from", b"subject"))
            repeated = repeated and body(one) == body(two)
            assert (key(one) == key(two)) == repeated
            same, other = same + repeated, other + (not repeated)
    assert same > 60
    assert other > 40


def sound(raw: bytes) -> bool:
    """Whether the standard library can rewrite it: it takes the fields of a delivery status for messages."""
    parts = list(email.message_from_bytes(raw).walk())
    for part in parts:
        part.get_payload(decode=True)  # finds defects too
    return not any(part.defects or part.get_content_type() == "message/delivery-status" for part in parts)


@pytest.mark.soak
def test_real_mail_through_hops_is_the_same_message(tmp_path: Path) -> None:
    draw, recoded = Random(12), 0
    for _, raw in trec_stream(tmp_path, 3000):
        original = Message.parse(raw)
        assert key(feeds(through(draw.sample(HOPS, 3), original.raw, draw), draw)) == original.key
        if sound(original.raw):
            assert key(draw.choice(ENCODINGS)(original.raw, draw)) == original.key
            recoded += 1
    assert recoded > 2000
