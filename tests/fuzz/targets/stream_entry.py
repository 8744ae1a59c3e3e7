"""An entry of the stream listener: it is refused with a reason, or becomes a message that can be tokenized.

The names and values of its fields have a NUL between them.
"""

from __future__ import annotations

from nbstream.listeners.stream.codec import (
    ENTRY_FIELDS,
    StreamRequest,
    UnreadableEntry,
    read_entry,
    refusal_fields,
    with_entry_ids,
)
from nbstream.mail.charsets import UTF8_REPLACED
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.policy.header import MessageReader
from nbstream.tokens.tokenizer import Tokenizer
from tests.fuzz.target import FuzzTarget

_LIMIT = 400
_MESSAGE = b"Subject: x\r\nX-Nbstream: spam; id=a\r\n\r\ntext\r\n"


def _check(data: bytes) -> None:
    words = data.split(b"\0")
    fields = dict(zip(words[::2], words[1::2], strict=False))
    try:
        request = read_entry(fields, _LIMIT)
    except UnreadableEntry as error:
        problem = str(error)
        answer = with_entry_ids(refusal_fields(problem), b"1-1", fields)
    else:
        problem = "none"
        _check_request(request)
        answer = with_entry_ids({"verdict": "ham"}, b"1-1", fields)
    assert problem.isprintable()
    assert sum(len(value if isinstance(value, bytes) else value.encode()) for value in answer.values()) < 2000


def _check_request(request: StreamRequest) -> None:
    assert (request.raw is None) != (request.text is None)
    assert request.label in {None, "ham", "spam"}
    if request.text is not None:
        message = Message.from_encoded_text(request.text, UTF8_REPLACED, MessageLimits())
    else:
        assert request.raw is not None
        message = MessageReader().read_incoming(request.raw)
    assert len(message.key) == 24
    assert len(Tokenizer().tokenize(message).tokens.all) <= 2000


TARGET = FuzzTarget(
    _check,
    (
        b"text\0You have won!",
        b"text\0You have won!\0id\0sms 1\0label\0spam",
        b"raw\0" + _MESSAGE,
        b"raw\0" + _MESSAGE.replace(b"\r", b"") + b"\0label\0ham\0from\0shop\0to\0you@example.org",
        b"raw\0" + _MESSAGE + b"\0text\0both",
        b"text\0" + b"x" * 401,
        b"text\0\xff\xfe\r\n\x1b[2J\0id\0\xff\r\n\0label\0\xffpam",
        b"lable\0spam\0text\0x",
        b"id\0" + b"i" * 257 + b"\0text\0x",
        b"",
    ),
    words=tuple(b"\0%s\0" % name.encode() for name in ENTRY_FIELDS),
    mutations=1000,
)
