"""Marking for programs that want their message back: unmarked again, it has the same bytes."""

from __future__ import annotations

from nbstream.mail import header_fields
from nbstream.mail.header_edits import HeaderEdits, rewrite_header, split_header_and_body
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.header import FilterMarks, MessageReader
from nbstream.tokens.tokenizer import Tokenizer
from tests.fuzz.target import FuzzTarget

MARKS = FilterMarks()

_NEW = (("X-Spam-Status", "No, score=-1.0"), ("X-Nbstream", 'ham; reason="x";\r\n\tmodel=m; id=' + "b" * 24))
_REMOVAL = HeaderEdits((), MARKS.names, MARKS.guard_field)
_MARK = HeaderEdits(_NEW, MARKS.names, MARKS.guard_field)
_READER = MessageReader()


def _check(data: bytes) -> None:
    head, body = split_header_and_body(data)
    assert head + body == data
    clean = rewrite_header(head, _REMOVAL)
    marked = rewrite_header(head, _MARK)
    fields = normalize_line_ends(marked + body)
    parsed = header_fields.parse_fields(fields, header_fields.body_offset(fields))
    own = [field.name for field in parsed if field.name in {name.lower() for name in MARKS.names}]
    assert own[:2] == [name.lower() for name, _ in _NEW]
    assert own[2:] in ([], [MARKS.guard_field.lower()])
    marked_head, marked_body = split_header_and_body(marked + body)
    if not own[2:]:
        assert rewrite_header(marked_head, _REMOVAL) + marked_body == clean + body
    # A first line that continues no field is removed with the guard; of a text without a header it is a part.
    if not own[2:] or _READER.read_incoming(data).is_mail:
        _check_identity(data, marked + body)


def _check_identity(sent: bytes, marked: bytes) -> None:
    """Check that a message has the same key and the same tokens when it comes back with our fields."""
    before, after = _READER.read_incoming(sent), _READER.read_incoming(marked)
    assert after.key == before.key
    assert Tokenizer().tokenize(after).tokens == Tokenizer().tokenize(before).tokens


TARGET = FuzzTarget(
    _check,
    (
        b"From: a@example.org\nSubject: hello\n\nSome text\n",
        b"From: a@example.org\r\nMessage-ID: <1@x>\r\n\r\nSome text\r\n",
        b"Subject: a\rTo: b\r\rtext",
        b"Subject: a\n\r\ntext\n",
        b" continues\nSubject: a\n\ntext",
        b"X-Nbstream: spam\n folded\n\ntext",
        b"\ntext without a header",
        b"text alone",
        b"",
    ),
    words=(b"X-Nbstream: x", b"X-Spam-Flag: YES\n", b"\n\r", b"\r\r", b"\n\n", b"\r\n\r\n", b"\n ", b"Subject: "),
    max_bytes=2000,
    mutations=600,
)
