"""``nbstream-filter``: any answer of a daemon is a header for the message, or none.

The first byte says how the rest becomes an answer: as it is, or as the content of one that is well-formed.
"""

from __future__ import annotations

from nbstream.mail import header_edits
from tests.fuzz.target import Choices, FuzzTarget
from tests.harness.filter_script import functions

_SCRIPT = functions()
_BODY = b"body\n"


def _check(data: bytes) -> None:
    choices = Choices(data)
    is_content = choices.number(2)
    content = choices.rest
    head = b"SPAMD/1.1 0 EX_OK\r\nContent-length: %d\r\nSpam: False ; 0.0 / 5.0\r\n\r\n" % len(content)
    assert _SCRIPT.header_length(content) == len(header_edits.split_header_and_body(content)[0])
    assert 0 <= _SCRIPT.envelope_line_length(bytearray(content)) <= len(content)
    try:
        fields, header = _SCRIPT.parse_answer(head + content if is_content else content)
        _SCRIPT.require_header(header, has_body=True)
        _SCRIPT.verdict(fields)
    except _SCRIPT.NoAnswerError:
        return
    assert header_edits.split_header_and_body(header + _BODY) == (header, _BODY)


TARGET = FuzzTarget(
    _check,
    (
        b"\1X-Spam-Status: No\nSubject: x\n\n",
        b"\1X-Spam-Status: No\r\nSubject: x\r\n\r\n",
        b"\1\n\n",
        b"\0SPAMD/1.1 0 EX_OK\r\nContent-length: 6\r\nSpam: True ; 9.0 / 5.0\r\nVerdict: reject\r\n\r\nA: b\n\n",
        b"\0SPAMD/1.0 75 Temporary failure\r\n",
        b"\0SPAMD/1.0 65 Message too large\r\n",
        b"\0From ann\nSubject: x\n\n",
    ),
    words=(b"\n\n", b"\r\r", b"\n\r\n", b"SPAMD/1.1 ", b"Content-length: ", b"Verdict: ", b"\r\n\r\n", b"From "),
    mutations=1000,
)
