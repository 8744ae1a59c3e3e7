"""The tag in the Subject: added, it is found; removed again, key, tokens and body are what they were."""

from __future__ import annotations

from nbstream.mail.encoded_words import decode_encoded_words
from nbstream.mail.header_edits import tag_subject, untag_subject, untagged_value
from nbstream.mail.header_fields import body_offset, parse_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.tokens.tokenizer import Tokenizer
from tests.fuzz.target import Choices, FuzzTarget

_TAGS = ("[SPAM]", "***", "[a b]", "x", "*" * 44)


def _check(data: bytes) -> None:
    choices = Choices(data)
    tag = choices.option(_TAGS)
    raw = normalize_line_ends(choices.rest)
    untagged = untag_subject(raw, tag)
    assert untagged.endswith(raw[body_offset(raw) :])
    tagged = tag_subject(raw, tag)
    subjects = [field for field in parse_fields(raw, body_offset(raw)) if field.name == "subject"]
    if tagged is None:
        assert untagged == raw
        assert not subjects
        return
    assert tag_subject(tagged, tag) == tagged
    assert tagged.endswith(raw[body_offset(raw) :])
    names = [field.name for field in parse_fields(tagged, body_offset(tagged))]
    assert names == [field.name for field in parse_fields(raw, body_offset(raw))]
    first = next(field for field in parse_fields(tagged, body_offset(tagged)) if field.name == "subject")
    # A neighbour that is no text in its charset is decoded together with the tag, by another charset.
    assert decode_encoded_words(first.value).startswith(tag) or b"=?" in untagged_value(first.value, tag)
    before, after = Message(untagged), Message(untag_subject(tagged, tag))
    assert after.key == before.key
    if before.is_mail:
        assert Tokenizer().tokenize(after).tokens == Tokenizer().tokenize(before).tokens
    rest = untagged_value(first.value, tag)
    assert untagged_value(rest, tag) in {rest, b" " + rest.strip()} or b"=?" in rest


TARGET = FuzzTarget(
    _check,
    (
        b"\0Subject: hello\n\nbody",
        b"\0Subject: [SPAM] hello\r\nSubject: two\r\n\r\nSubject: body",
        b"\0From: a@b\nSubject:\n =?utf-8?Q?=5BSPAM=5D_h=C3=A9?=\n =?utf-8?B?bGxv?=\n\nbody",
        b"\1subject :*** *** x\n\n",
        b"\2Subject: [a b] x\n\n",
        b"\2Subject: =?utf-8?q?x?=\n\n",
        b"\4Subject: " + b"x" * 70 + b"\n\ty\n\n",
        b"\0From: a@b\n\nno subject",
        b"\0Subject:",
        b"",
    ),
    words=(
        b"Subject:",
        b"[SPAM]",
        b"=?utf-8?Q?=5BSPAM=5D?=",
        b"=?utf-8?B?W1NQQU1d?=",
        b"\n ",
        b"\n\n",
        b"=?",
        b"?=",
    ),
    max_bytes=1500,
    mutations=1000,
)
