"""What an IMAP server sends: any bytes are responses or no IMAP, however they are cut, within the limit."""

from __future__ import annotations

from nbstream.wire import imap
from nbstream.wire.imap import ImapProtocolError, ImapResponse, ImapResponseParser
from tests.fuzz.target import FuzzTarget

_LIMIT = 200


def _check(data: bytes) -> None:
    step = 1 + (data[-1] if data else 0) % 7
    responses = _parse(data, step)
    assert responses == _parse(data, len(data) or 1)
    for response in responses[0]:
        assert response.size <= _LIMIT
        assert len(response.texts) == len(response.literals) + 1
        message = imap.parse_fetch(response)
        assert message is None or message.content is None or message.content in response.literals
        assert all(0 < uid <= imap.MAX_UID for uid in imap.parse_search(response))
        imap.parse_uid_validity(response)
        assert not response.is_ok or response.tag or response.text.startswith(" ")


def _parse(data: bytes, step: int) -> tuple[list[ImapResponse], bool]:
    parser = ImapResponseParser()
    parser.max_response_bytes = _LIMIT
    responses: list[ImapResponse] = []
    try:
        for start in range(0, len(data), step):
            responses.extend(parser.feed(data[start : start + step]))
    except ImapProtocolError:
        return responses, False
    return responses, True


TARGET = FuzzTarget(
    _check,
    (
        b"* OK [UIDVALIDITY 7] hello\r\nn1 OK done\r\n",
        b"* SEARCH 1 2 4294967295\r\n",
        b"* 3 FETCH (UID 7 BODY[] {5}\r\n\r\nab\n)\r\n",
        b"* 4 FETCH (BODY[] {0}\r\n UID 9 RFC822.SIZE 12)\r\n",
        b"* 1 FETCH (BODY[] {9999999999}\r\n",
        b"+ \r\n* BYE\r\n",
    ),
    words=(b"{1}\r\n", b"BODY[] {", b"UID ", b"RFC822.SIZE ", b"* SEARCH ", b"\r\n"),
    mutations=1000,
)
