"""An mbox is split in blocks as it is split line by line."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pytest

from nbstream.mail import mbox

_PIECES = (
    b"\n",
    b"\r\n",
    b"\r",
    b"x\n",
    b"\n\n",
    b"From ",
    b"From a 10:00\n",
    b"From \n",
    b"From b 10:00",
    b">From 1:22\n",
    b">",
)


def _split_by_lines(content: bytes) -> Iterator[bytes]:
    part, blank = b"", True
    for line in io.BytesIO(content):
        if blank and mbox._SEPARATOR.match(line):
            yield mbox.message_of(part)
            part = b""
        else:
            blank = line in {b"\n", b"\r\n"}
            part += line
    yield mbox.message_of(part)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_any_number_of_lines_give_the_same_messages(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(100):
        content = b"".join(chosen.choices(_PIECES, k=chosen.randint(0, 12)))
        lines, blocks = list(io.BytesIO(content)), []
        while lines:
            size = chosen.randint(1, 4)
            blocks.append(b"".join(lines[:size]))
            del lines[:size]

        assert list(mbox.split(blocks)) == list(_split_by_lines(content))


def test_only_quoted_separators_lose_a_mark() -> None:
    assert mbox.message_of(b">From a\n>>From b\n>x\n > From c\n\n") == b"From a\n>From b\n>x\n > From c\n"


def test_messages_behind_bare_lines_are_separate() -> None:
    content = b"From \nSubject: a\n\nFrom here on\n\nFrom \r\nSubject: b\n\n"
    _, *messages = _split_by_lines(content)
    assert messages == [b"Subject: a\n\nFrom here on\n", b"Subject: b\n"]


@pytest.mark.parametrize(
    ("header", "letters"),
    [
        (b"Status: RO\nX-Status: AD\n", "ROAD"),
        (b"X-Mozilla-Status: 0009\n", "D"),
        (b"X-Mozilla-Status: 0001\nX-Mozilla-Status2: 00000008\n", ""),
        (b"Subject: Status: D\n", ""),
    ],
)
def test_the_status_of_a_message_is_what_its_program_wrote(header: bytes, letters: str) -> None:
    assert mbox.status_letters(header) == letters
