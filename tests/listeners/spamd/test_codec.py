"""The spamd protocol: which bytes are which request, however they are cut, and what is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.spamd.codec import (
    MAX_FIELDS,
    MAX_LINE_BYTES,
    SpamdCommand,
    SpamdEvent,
    SpamdParser,
    SpamdRefusal,
    SpamdRequest,
    TellRequest,
    decompress,
)

LIMIT = 1000
MESSAGE = b"Subject: x\r\n\r\ntext\r\n"


def events(pieces: Iterable[bytes], *, end: bool = True, limit: int = LIMIT) -> list[SpamdEvent]:
    parser = SpamdParser(limit)
    complete = [event for piece in pieces for event in parser.feed(piece)]
    return complete + (parser.end() if end else [])


def request(*fields: str, command: str = "CHECK", version: str = "1.5", message: bytes = MESSAGE) -> bytes:
    """A request; a field ``Content-length`` is added where none is given."""
    lines = [f"{command} SPAMC/{version}", *fields]
    if not any(line.lower().startswith("content-length") for line in fields):
        lines.append(f"Content-length: {len(message)}")
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + message


def refusal(data: bytes, *, limit: int = LIMIT) -> SpamdRefusal:
    [event] = events([data], limit=limit)
    assert isinstance(event, SpamdRefusal)
    return event


def only(parsed: Sequence[SpamdEvent]) -> SpamdRequest:
    [event] = parsed
    assert isinstance(event, SpamdRequest)
    return event


# What is a request


@pytest.mark.parametrize(
    "command", sorted(set(SpamdCommand) - {SpamdCommand.TELL, SpamdCommand.PING, SpamdCommand.SKIP})
)
@pytest.mark.parametrize("minor", range(6))
def test_every_command_in_every_version(command: SpamdCommand, minor: int) -> None:
    data = request(command=str(command), version=f"1.{minor}")

    assert only(events([data], end=False)) == SpamdRequest(command, minor, MESSAGE)


def test_without_a_length_the_message_ends_where_the_client_does() -> None:
    data = b"PROCESS SPAMC/1.2\r\n\r\n" + MESSAGE

    assert events([data], end=False) == []
    assert only(events([data])) == SpamdRequest(SpamdCommand.PROCESS, 2, MESSAGE)


@pytest.mark.parametrize("command", ["PING", "SKIP"])
@pytest.mark.parametrize("rest", [b"", b"\r\n", b"User: x\r\n\r\n", b"PING SPAMC/1.5\r\n", b"\0" * 2000])
def test_a_command_without_a_message_is_complete_with_its_line(command: str, rest: bytes) -> None:
    data = f"{command} SPAMC/1.2\r\n".encode()

    assert only(events([data + rest], end=False)) == SpamdRequest(SpamdCommand(command), 2)


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-length: 20", "User: ann"),
        ("content-length:20", "USER:ann"),
        ("Content-Length:   20  ", "User: ann "),
    ],
)
def test_fields_are_understood_in_any_case(fields: tuple[str, ...]) -> None:
    assert only(events([request(*fields)])).user == "ann"


def test_a_client_may_ask_for_the_verdict_by_its_name() -> None:
    assert only(events([request("Verdict: yes")])).wants_verdict
    assert not only(events([request()])).wants_verdict


def test_a_user_is_printable_and_short() -> None:
    assert only(events([request("User: a\x1b[2J\tn\xe9")])).user == "a?[2J?n?"
    assert only(events([request("User: " + "n" * 500)])).user == "n" * 100


@pytest.mark.parametrize(
    ("fields", "meant", "label"),
    [
        (("Message-class: spam", "Set: local"), TellRequest.LEARN, "spam"),
        (("Message-class: ham", "Set: local"), TellRequest.LEARN, "ham"),
        (("Message-class: newsletter", "Set: local"), TellRequest.LEARN, "newsletter"),
        (("Set: local, remote", "Message-class: SPAM"), TellRequest.LEARN, "spam"),
        (("Message-class: ham", "Set: local", "Remove: remote"), TellRequest.LEARN, "ham"),
        (("Remove: local",), TellRequest.FORGET, ""),
        (("Message-class: spam", "Set: remote"), TellRequest.NOTHING, ""),
        (("Remove: remote",), TellRequest.NOTHING, ""),
    ],
)
def test_what_tell_asks_for(fields: tuple[str, ...], meant: TellRequest, label: str) -> None:
    asked = only(events([request(*fields, command="TELL")]))
    assert (asked.tell, asked.label) == (meant, label)


# However the bytes are cut


SAMPLES = [
    request(),
    request("User: ann", command="PROCESS"),
    request("Message-class: spam", "Set: local", command="TELL"),
    request("Compress: zlib", message=zlib.compress(MESSAGE)),
    request("Content-length: 0", message=b""),
    request("Content-length: 19"),
    request("Content-length: 21"),
    request(f"Content-length: {LIMIT + 1}"),
    request(f"Content-length: {LIMIT}", message=b"m" * (LIMIT + 5)),
    request("Content-length: 5", message=b"m" * (LIMIT + 5)),
    request("nonsense"),
    request("X: " + "x" * MAX_LINE_BYTES),
    request(*["X: x"] * MAX_FIELDS),
    b"CHECK SPAMC/1.2\r\n\r\n" + MESSAGE,
    b"CHECK SPAMC/1.2\r\n\r\n" + b"m" * (LIMIT + 1),
    b"CHECK SPAMC/1.2\r\nUser: x\r\n",
    b"PING SPAMC/1.2\r\n\r\n",
    b"PING SPAMC/1.2",
    request() + request(),
    b"\r\n\r\n",
    b"\0" * (2 * MAX_LINE_BYTES),
    b"",
]


@given(st.data())
def test_any_cut_says_the_same(data: st.DataObject) -> None:
    raw = data.draw(st.one_of(st.sampled_from(SAMPLES), st.binary(max_size=200)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    assert events(pieces) == events([raw])


_LINES = st.sampled_from(
    ["CHECK SPAMC/1.5", "TELL SPAMC/1.3", "Content-length: 4", "Content-length: 9", "Set: local", "Remove: local",
     "Message-class: spam", "Compress: zlib", "User: ann", "", "", "text", "x" * MAX_LINE_BYTES]
)  # fmt: skip


@given(st.lists(_LINES, max_size=12), st.integers(1, 50))
def test_the_events_are_a_request_a_refusal_or_both(lines: list[str], step: int) -> None:
    raw = "".join(f"{line}\r\n" for line in lines).encode()

    parsed = events([raw[start : start + step] for start in range(0, len(raw), step)])

    assert [type(event) for event in parsed] in ([SpamdRequest], [SpamdRefusal], [SpamdRequest, SpamdRefusal])
    assert parsed == events([raw])


@pytest.mark.parametrize("data", SAMPLES, ids=range(len(SAMPLES)))
def test_a_client_that_disconnects_at_any_byte_requests_nothing_else(data: bytes) -> None:
    whole = [event for event in events([data]) if isinstance(event, SpamdRequest)]

    for length in range(len(data)):
        requests = [event for event in events([data[:length]]) if isinstance(event, SpamdRequest)]
        if b"ontent-length" in data:
            assert requests in ([], whole)


# What is refused


@pytest.mark.parametrize(
    "line",
    ["", "CHECK", "CHECK SPAMC/1.10", "check SPAMC/1.5", "CHECK SPAMC/2.0", "CHECK  SPAMC/1.5", "QUIT SPAMC/1.5",
     "GET / HTTP/1.1", "CHECK SPAMC/1.5 x", " CHECK SPAMC/1.5", "PING SPAMC/\xb9.5"],
)  # fmt: skip
def test_a_line_that_is_no_request_is_refused_at_once(line: str) -> None:
    [event] = events([f"{line}\r\n".encode()], end=False)

    assert event == SpamdRefusal(76, "Bad header line: (no such request)")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("nonsense",), "Bad header line: (header not in 'Name: value' format)"),
        (("Content-length: 2O",), "Bad header line: (Content-length contains non-numeric bytes)"),
        (("Content-length: -1",), "Bad header line: (Content-length contains non-numeric bytes)"),
        (("Content-length: \xb2",), "Bad header line: (Content-length contains non-numeric bytes)"),
        (("Content-length: ",), "Bad header line: (Content-length contains non-numeric bytes)"),
        (("Content-length: 20", "Content-length: 21"), "Bad header line: (contradicts one above)"),
        (("Compress: gzip",), "Bad header line: (only zlib is known)"),
        (("X: " + "x" * MAX_LINE_BYTES,), "Bad header line: (too long)"),
        (("X: x",) * MAX_FIELDS, "Bad header line: (too many)"),
        (("Content-length: 19",), None),
        (("Content-length: 21",), "Content-length mismatch: the message is shorter"),
    ],
)
def test_a_header_that_is_wrong_is_refused(fields: tuple[str, ...], why: str | None) -> None:
    last = events([request(*fields)])[-1]

    assert last == SpamdRefusal(76, why or "Content-length mismatch: the message is longer")


@pytest.mark.parametrize(
    "fields",
    [(), ("Set: local",), ("Message-class: 2 eggs", "Set: local"), ("Message-class: spam",),
     ("Message-class: spam", "Set: local", "Remove: local")],
)  # fmt: skip
def test_a_tell_that_means_nothing_is_refused(fields: tuple[str, ...]) -> None:
    assert refusal(request(*fields, command="TELL")).code == 76


@pytest.mark.parametrize(
    "start", [b"TELL SPAMC/1.5\r\nRemove: local\r\n", b"CHECK SPAMC/1.5\r\nCompress: zlib\r\n"]
)
def test_a_tell_and_a_compressed_message_need_a_length(start: bytes) -> None:
    assert refusal(start + b"\r\n" + MESSAGE).text == "Bad header line: (Content-length is missing)"


def test_a_large_message_is_refused_before_it_comes() -> None:
    [event] = events([request(f"Content-length: {LIMIT + 1}", message=b"")], end=False)

    assert event == SpamdRefusal(65, "Message too large")
    assert only(events([request(message=b"m" * LIMIT)])).body == b"m" * LIMIT


# Compressed messages


def decompressed(body: bytes, limit: int) -> tuple[bytes, SpamdRefusal | None]:
    pieces = list(decompress(body, limit))
    last = pieces.pop() if pieces and isinstance(pieces[-1], SpamdRefusal) else None
    assert not isinstance(last, bytes)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)), last


@given(st.binary(max_size=2000), st.integers(0, 9))
def test_a_compressed_message_is_decompressed(message: bytes, level: int) -> None:
    assert decompressed(zlib.compress(message, level), len(message)) == (message, None)


def test_a_bomb_is_decompressed_no_further_than_the_limit() -> None:
    pieces = decompress(zlib.compress(b"\0" * (100 << 20), 9), 1 << 20)

    decoded = list(pieces)
    assert decoded[-1] == SpamdRefusal(65, "Message too large")
    assert len(decoded) == 5


@pytest.mark.parametrize("body", [MESSAGE, zlib.compress(MESSAGE) + b"x", b"\x1f\x8b\x08"])
def test_a_message_compressed_wrong_is_refused(body: bytes) -> None:
    refused = decompressed(body, LIMIT)[1]

    assert refused is not None
    assert refused.code == 76


@given(st.binary(max_size=300))
def test_any_bytes_are_decompressed_or_refused(body: bytes) -> None:
    content, _ = decompressed(body, LIMIT)

    assert len(content) <= LIMIT
