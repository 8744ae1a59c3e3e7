"""A coverage-guided fuzzer of the spamd codec, with atheris, which has to be installed for it.

    python -m tests.fuzz.spamd -max_total_time=300 FOLDER     (the fuzzer adds each new input to FOLDER)

Each fault that it finds becomes a test. The seeds are run by ``make test``.
"""

from __future__ import annotations

import sys
import zlib

LIMIT = 400
MESSAGE = b"Subject: x\r\n\r\ntext\r\n"
SEEDS = (
    b"CHECK SPAMC/1.5\r\nContent-length: 20\r\nUser: ann\r\n\r\n" + MESSAGE,
    b"PROCESS SPAMC/1.2\nContent-length: 20\n\n" + MESSAGE,
    b"HEADERS SPAMC/1.3\r\n\r\n" + MESSAGE.replace(b"\r", b""),
    b"REPORT_IFSPAM SPAMC/1.0\r\nCONTENT-LENGTH:19\r\n\r\n" + MESSAGE,
    b"TELL SPAMC/1.4\r\nMessage-class: spam\r\nSet: local, remote\r\nContent-length: 20\r\n\r\n" + MESSAGE,
    b"TELL SPAMC/1.4\r\nRemove: local\r\nContent-length: 20\r\n\r\n" + MESSAGE,
    b"SYMBOLS SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 28\r\n\r\n" + zlib.compress(MESSAGE),
    b"REPORT SPAMC/1.5\r\nCompress: zlib\r\nContent-length: 20\r\n\r\n" + zlib.compress(b"\0" * 9000),
    b"PING SPAMC/1.2\r\n\r\n",
    b"SKIP SPAMC/1.2\r\n",
)


def check(data: bytes) -> None:
    """Check that the codec and marking keep their rules for any bytes, however they are cut into pieces."""
    # Imported here because atheris instruments only what is imported after it.
    from nbstream.mail import header_fields, marking  # noqa: PLC0415
    from nbstream.mail.lines import normalize_line_ends  # noqa: PLC0415
    from nbstream.wire.spamd import SpamdParser, SpamdRefusal, SpamdRequest, decompress  # noqa: PLC0415
    from nbstream.wire.spamd_replies import SpamdJudgement, render_check  # noqa: PLC0415

    step = 1 + (data[-1] if data else 0) % 7
    cut, whole = SpamdParser(LIMIT), SpamdParser(LIMIT)
    events = whole.feed(data) + whole.end()
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    assert [event for piece in pieces for event in cut.feed(piece)] + cut.end() == events
    assert [type(event) for event in events] in ([SpamdRequest], [SpamdRefusal], [SpamdRequest, SpamdRefusal])
    for event in events:
        if isinstance(event, SpamdRefusal):
            assert event.render().decode("ascii").strip().isprintable()
            continue
        assert len(event.body) <= LIMIT
        assert event.user.isascii()
        assert not event.user or event.user.isprintable()
        bodies = list(decompress(event.body, LIMIT)) if event.compressed else [event.body]
        body = b"".join(piece for piece in bodies if isinstance(piece, bytes))
        assert len(body) <= LIMIT
        head, rest = marking.split_header_and_body(body)
        assert head + rest == body
        marked = normalize_line_ends(marking.rewrite_header(head, [("X-Own", "1")], ["X-Own"], "X-Guard"))
        names = [field.name for field in header_fields.parse_fields(marked, header_fields.body_offset(marked))]
        assert names.count("x-own") == 1
        assert render_check(event, SpamdJudgement(spam=False, score=0.0, required=1.0), body).endswith(
            body if event.minor >= 3 else b""
        )


def main() -> None:
    """Run the fuzzer with the arguments of libFuzzer."""
    import atheris  # noqa: PLC0415 - no part of the tests' environment

    with atheris.instrument_imports(include=["nbstream"]):
        check(b"")
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
