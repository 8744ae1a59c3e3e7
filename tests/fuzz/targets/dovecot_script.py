"""Dovecot's script protocol: any bytes are a request or a refusal, however they are cut."""

from __future__ import annotations

from nbstream.listeners.dovecot.codec import ScriptParser, ScriptRefusal
from tests.fuzz.target import FuzzTarget

_LIMIT = 300


def _check(data: bytes) -> None:
    step = 1 + (data[-1] if data else 0) % 7
    cut, whole = ScriptParser(_LIMIT), ScriptParser(_LIMIT)
    for start in range(0, len(data), step):
        cut.feed(data[start : start + step])
    whole.feed(data)
    event = whole.end()
    assert cut.end() == event
    if event is None:
        assert not data
        return
    if isinstance(event, ScriptRefusal):
        assert event.text.isprintable()
        return
    assert len(event.content) <= _LIMIT
    assert data.endswith(event.content)
    assert event.user.isascii()
    assert not event.user or event.user.isprintable()


TARGET = FuzzTarget(
    _check,
    (
        b"VERSION\tscript\t4\t0\nenv_USER=ann\nenv_HOME=/x\n-\n127.0.0.1:1\nspam@x\n\nSubject: x\r\n\r\ntext\r\n",
        b"VERSION\tscript\t3\t0\n-\n\n",
        b"VERSION\tscript\t4\t0\nalarm=10\na\x01tb\x01n\n\n\n\n",
        b"VERSION\tscript\t4\t0\nnoreply\n\n",
    ),
    words=(b"VERSION\tscript\t", b"env_USER=", b"alarm=", b"noreply\n", b"\n\n", b"\x01"),
    mutations=1500,
)
