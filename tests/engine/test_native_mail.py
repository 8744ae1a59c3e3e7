"""The native version of ``nbstream.mail`` gives the same bytes as Python, or leaves a question to it."""

from __future__ import annotations

import base64
import binascii
import encodings
import hashlib
import pkgutil
from collections.abc import Iterator
from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.charsets import decode_text
from nbstream.mail.encoded_words import decode_base64, decode_encoded_words
from nbstream.mail.message import Message, decode_unread_end
from nbstream.mail.mime import MessageLimits, parse_parameters
from nbstream.policy.header import MessageReader
from tests.engine.native_mail import NativeMail, build_native_mail, message_difference, running_native_mail
from tests.fuzz.target import load_target
from tests.harness.expensive_messages import KNOWN
from tests.harness.mutation import mutations

_LIMITS = (
    MessageLimits(),
    MessageLimits(look_bytes=66_000, max_parts=3, max_depth=2),
    MessageLimits(look_bytes=100, max_parts=1, max_depth=1),
)


@pytest.fixture(scope="module")
def native() -> Iterator[NativeMail]:
    with running_native_mail(build_native_mail()) as running:
        yield running


def pieces(*words: bytes) -> st.SearchStrategy[bytes]:
    """Return values that consist of these words and of other short strings."""
    return st.lists(st.sampled_from(words) | st.binary(max_size=3), max_size=20).map(b"".join)


def wrong(answer: list[bytes] | None, expected: bytes) -> bool:
    """Return whether there is an answer, and another one than Python's."""
    return answer is not None and answer != [expected]


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("target", ["mime", "message_tokens"])
@pytest.mark.parametrize("limits", _LIMITS, ids=("usual", "small", "smallest"))
def test_broken_messages_have_the_same_parts_and_keys(
    native: NativeMail, target: str, limits: MessageLimits
) -> None:
    seeds, words = load_target(target).seeds, load_target(target).words
    for raw in (*seeds, *mutations(seeds, 250, words=words)):
        assert message_difference(native, MessageReader(limits).read_incoming(raw)) is None, raw


def test_a_bare_text_is_one_part(native: NativeMail) -> None:
    text = "Date: tonight?\n" * 20
    for limits in _LIMITS:
        assert message_difference(native, Message.from_text(text, limits)) is None


@pytest.mark.parametrize("name", KNOWN)
def test_messages_that_are_made_to_cost_much_have_the_same_parts(native: NativeMail, name: str) -> None:
    raw = KNOWN[name].message(100_000)
    for limits in (MessageLimits(), MessageLimits(look_bytes=75_000)):
        assert message_difference(native, MessageReader(limits).read_incoming(raw)) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"Subject: =?utf-8?q?a_b?=\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\xc3\xa4",
        b'Content-Type: multipart/mixed; boundary="b c"\r\n\r\n--b c\r\n\r\ntext\r\n--b c--\r\n',
        "From: caf\u00e9 \u3000\r\nSubject: =?utf-8?b?w6k=?=\r\n\r\ncaf\u00e9".encode(),
        b"From: a\r\n\r\n" + b"some text\r\n" * 20_000,
    ],
    ids=("encoded words", "parts", "fields in UTF-8", "long"),
)
def test_python_is_not_asked_without_need(native: NativeMail, raw: bytes) -> None:
    answer = native.ask_message(Message(raw, MessageLimits(look_bytes=100_000)))

    assert answer is not None
    assert b"?" not in answer


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Type: text/\xe4",
        b"Content-Type: text/plain; charset=\xe4",
        b"Content-Type: multipart/mixed; boundary=\xe4",
        b'Content-Type: multipart/mixed; boundary="=?us-ascii?q?a=0D=0Ab?="',
        b"Content-Disposition: \xe4",
        b"Content-Transfer-Encoding: \xe4",
    ],
)
def test_a_structure_that_is_not_ascii_is_left_to_python(native: NativeMail, fields: bytes) -> None:
    assert native.ask_message(Message(b"From: a\r\n" + fields + b"\r\n\r\ntext")) is None


@given(
    pieces(
        *(b"=?utf-8?q?", b"=?us-ascii*en?B?", b"YWJj", b"?=", b"=?", b"?", b"=", b"=20", b"_", b" ", b"\r\n"),
        *(
            b"\xc3\xa4",
            b"=C3=A4",
            b"w6Q=",
            b"=?utf-16?b?",
            b"=?x?q?a?=",
            b"=?" + b"a" * 64 + b"?q?",
            b"=?" + b"a" * 65 + b"?q?",
        ),
    )
)
def test_encoded_words(native: NativeMail, value: bytes) -> None:
    assert not wrong(native.ask(b"decode_encoded_words", value), utf8(decode_encoded_words(value)))


@given(
    pieces(
        *(b";", b"; ", b"charset", b"Boundary", b"filename", b"name", b"=", b" = ", b'"', b"\\", b'\\"', b"a"),
        *(b"*", b"*=", b"*0*=", b"*1=", b"*10", b"utf-8''", b"'", b"%41", b"%e4", b"=?utf-8?q?", b"?=", b"\r\n"),
        *(b"a" * 990, b"text/plain"),
    ),
    st.sampled_from(("charset", "boundary", "filename", "name")),
)
def test_parameters(native: NativeMail, value: bytes, name: str) -> None:
    main, parameters = parse_parameters(value)
    answer = native.ask(b"parse_parameters", value, name.encode())

    assert answer
    assert answer[0].decode("ascii", "replace") == main
    if answer[1:] != [b"?", b"foreign"]:
        assert answer[1:] == ([utf8(parameters[name])] if name in parameters else [])


@given(pieces(b"YWJj", b"=", b"==", b"Y", b"\r\n", b"-", b"+/", b"YW=", b"Y=Jj"))
def test_base64(native: NativeMail, text: bytes) -> None:
    assert native.ask(b"decode_base64", text) == [decode_base64(text)]


@given(pieces(b"=", b"=3D", b"=e4", b"=\r\n", b"=\r", b"\n", b"==", b"_", b"=g", b"a" * 40))
def test_quoted_printable(native: NativeMail, text: bytes) -> None:
    assert native.ask(b"a2b_qp", text) == [binascii.a2b_qp(text)]
    assert native.ask(b"a2b_qp in a header", text) == [binascii.a2b_qp(text, header=True)]


@given(
    pieces(
        *(b"text\r\n", b"=\r\n", b"=3D", b"\n", b"\r\n", b"=", b"A" * 59, b"A\r\n" * 30, b"Zm9v" * 15 + b"\r\n"),
        *(b"AAAA" * 15 + b"=\r\n", b"/w==\r\n", base64.b64encode(b"text " * 12) + b"\r\n", b"x" * 80 + b"\r\n"),
    ),
    st.sampled_from((b"utf-8", b"iso-8859-1", b"utf-16")),
)
def test_the_end_that_is_not_parsed(native: NativeMail, raw: bytes, charset: bytes) -> None:
    expected = utf8(decode_unread_end(raw, charset.decode()))
    # An answer of one empty string is an answer.
    assert not wrong(native.ask(b"decode_unread_end", raw, charset), expected)


@pytest.mark.parametrize("text", [bytes(range(128)) + b"+A ~{ \x1b$B", bytes(range(256)), "caf\u00e9".encode()])
def test_text_in_every_charset_that_python_knows(native: NativeMail, text: bytes) -> None:
    modules = (module.name for module in pkgutil.iter_modules(encodings.__path__))
    names = (*aliases, *modules, "x-sjis", "unicode-1-1-utf-7", "no such charset", "")
    for name in names:
        for written in (name, f" '{name.upper().replace('_', '-')}'"):
            answer = native.ask(b"decode_text", text, written.encode())
            assert not wrong(answer, utf8(decode_text(text, written))), written


@given(st.binary(max_size=300))
def test_digests(native: NativeMail, content: bytes) -> None:
    digest = hashlib.blake2b(content, digest_size=15).digest()

    assert native.ask(b"blake2b", content) == [digest]
    assert native.ask(b"base32", digest) == [base64.b32encode(digest).lower()]
