"""Header fields on raw bytes: our own ones can be added and removed, and nothing else changes."""

from __future__ import annotations

from nbstream.mail.header_fields import body_offset, guard_first_line, parse_fields, prepend_fields, strip_fields
from nbstream.mail.lines import normalize_line_ends, split_at_line_ends
from nbstream.policy.header import FilterMarks
from tests.fuzz.target import FuzzTarget

MARKS = FilterMarks()

_OWN = {name.lower() for name in MARKS.names}
_NEW = [("X-Spam-Flag", "YES"), ("X-Nbstream", 'spam; reason="x";\r\n\tmodel=m; id=' + "a" * 24)]


def _check(data: bytes) -> None:
    raw = normalize_line_ends(data)
    assert raw.count(b"\r\n") == raw.count(b"\r") == raw.count(b"\n")
    assert normalize_line_ends(raw) == raw
    assert b"".join(split_at_line_ends(raw)) == raw
    offset = body_offset(raw)
    fields = parse_fields(raw, offset)
    for field in fields:
        assert isinstance(field.text, str)
        assert field.name == field.name_as_written.lower()

    clean = strip_fields(raw, MARKS.names)
    assert strip_fields(clean, MARKS.names) == clean
    assert clean.endswith(raw[offset:])
    assert parse_fields(clean, body_offset(clean)) == tuple(field for field in fields if field.name not in _OWN)

    marked = prepend_fields(guard_first_line(clean, MARKS.guard_field), _NEW)
    names = [field.name for field in parse_fields(marked, body_offset(marked))]
    assert names[: len(_NEW)] == [name.lower() for name, _ in _NEW]
    assert marked.endswith(clean)
    if clean[:1] not in {b" ", b"\t"}:
        assert strip_fields(marked, MARKS.names) == clean


TARGET = FuzzTarget(
    _check,
    (
        b"From: a@example.org\r\nSubject: one\r\n two\r\n"
        b"X-Nbstream: ham; id=x\r\n\tmore\r\n\r\nX-Nbstream: body\r\n",
        b"X-Spam-Flag : YES\nx-spam-level:\n\n",
        b" first\r\nX-Nbstream-Clues:\r\n\r\n\r\n",
        b"no field\r: x\r\nNAME\t: value",
        b"\r\nbody",
        b"X-Nbstream-Continued:\r\n x\r\nSubject: =?utf-8?q?=c3=a4?=\r\n",
        b"",
    ),
    words=(
        b"X-Nbstream:",
        b"X-Spam-Status: No",
        b"X-Nbstream-Recipient:",
        b"\r\n ",
        b"\n\t",
        b"\r\r\n",
        b"\r\n\r\n",
    ),
    mutations=2000,
)
