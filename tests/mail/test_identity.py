"""A message stays the same message on any way, and no other message has its key."""

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
from tests.harness.corpora import trec_stream
from tests.harness.samples import samples
from tests.mail.relay_changes import ENCODINGS, RELAY_CHANGES, RelayChange, lf_line_ends

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
ORIGINALS = [RICH.encode(), *(raw for _, raw in samples(40))]

originals = st.sampled_from(ORIGINALS)
ways = st.tuples(
    st.lists(st.sampled_from(RELAY_CHANGES + ENCODINGS), max_size=8), st.randoms(use_true_random=False)
)


def relayed(changes: Sequence[RelayChange], raw: bytes, draw: Random) -> bytes:
    for change in changes:
        raw = change(raw, draw)
    return raw


def key(raw: bytes) -> str:
    return Message.parse(raw).key


@pytest.mark.parametrize("change", [*RELAY_CHANGES, *ENCODINGS, lf_line_ends], ids=lambda change: change.__name__)
def test_each_change_on_the_way_leaves_the_message_the_same(change: RelayChange) -> None:
    raw = Message.parse(RICH.encode()).raw
    passed = change(raw, Random(3))

    assert passed != raw
    assert key(passed) == key(raw)


@settings(max_examples=50, deadline=None)
@given(raw=originals, way=ways, last=st.sampled_from([lf_line_ends, None]))
def test_any_sequence_of_changes_leaves_the_message_the_same(
    raw: bytes, way: tuple[list[RelayChange], Random], last: RelayChange | None
) -> None:
    changes, draw = way

    assert key(relayed([*changes, *([last] if last else [])], Message.parse(raw).raw, draw)) == key(raw)


def test_letters_that_differ_have_different_keys() -> None:
    assert len({key(raw) for raw in ORIGINALS}) == len(ORIGINALS)


@settings(max_examples=50, deadline=None)
@given(raw=originals, way=ways, fraction=st.floats(0, 1, exclude_max=True))
def test_one_other_letter_in_the_body_makes_another_message_of_the_same_message_id(
    raw: bytes, way: tuple[list[RelayChange], Random], fraction: float
) -> None:
    _, _, body = raw.partition(b"\n\n")
    letters_in_words = [letter.start() for letter in re.finditer(rb"(?<= )[a-z](?=[a-z]+ )", body)]
    position = len(raw) - len(body) + letters_in_words[int(fraction * len(letters_in_words))]
    other = raw[:position] + (b"x" if raw[position : position + 1] != b"x" else b"y") + raw[position + 1 :]
    changes, draw = way

    assert Message.parse(other).first_field("message-id") == Message.parse(raw).first_field("message-id")
    assert key(relayed(changes, Message.parse(other).raw, draw)) != key(raw)


# Real repeats


def plain(raw: bytes, name: bytes) -> bytes:
    """The raw value of the first field of this name, without white space."""
    match = re.search(rb"(?im)^" + name + rb"[ \t]*:(.*(?:\n[ \t].*)*)", raw.partition(b"\n\n")[0])
    return re.sub(rb"\s", b"", match[1]) if match else b""


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


def can_be_rewritten(raw: bytes) -> bool:
    """Whether the standard library can rewrite ``raw``: it reads the fields of a delivery status as messages."""
    parts = list(email.message_from_bytes(raw).walk())
    for part in parts:
        part.get_payload(decode=True)  # this finds defects as well
    return not any(part.defects or part.get_content_type() == "message/delivery-status" for part in parts)


@pytest.mark.soak
def test_real_mail_after_changes_is_the_same_message(tmp_path: Path) -> None:
    draw, recoded_messages = Random(12), 0
    for _, raw in trec_stream(tmp_path, 3000):
        original = Message.parse(raw)
        assert key(lf_line_ends(relayed(draw.sample(RELAY_CHANGES, 3), original.raw, draw), draw)) == original.key
        if can_be_rewritten(original.raw):
            assert key(draw.choice(ENCODINGS)(original.raw, draw)) == original.key
            recoded_messages += 1
    assert recoded_messages > 2000
