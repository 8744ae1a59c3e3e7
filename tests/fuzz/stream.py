"""A coverage-guided fuzzer of the stream listener's entries, with atheris, which has to be installed for it.

    python -m tests.fuzz.stream -max_total_time=300 FOLDER     (each new input is added to FOLDER, after the seeds)

Each fault that it finds becomes a test. The seeds are run by ``make test``.
"""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 400
MESSAGE = b"Subject: x\r\nX-Nbstream: spam; id=a\r\n\r\ntext\r\n"
SEEDS = (
    b"text\0You have won!",
    b"text\0You have won!\0id\0sms 1\0label\0spam",
    b"raw\0" + MESSAGE,
    b"raw\0" + MESSAGE.replace(b"\r", b"") + b"\0label\0ham\0from\0shop\0to\0you@example.org",
    b"raw\0" + MESSAGE + b"\0text\0both",
    b"text\0" + b"x" * 401,
    b"text\0\xff\xfe\r\n\x1b[2J\0id\0\xff\r\n\0label\0\xffpam",
    b"lable\0spam\0text\0x",
    b"id\0" + b"i" * 257 + b"\0text\0x",
    b"",
)


def check(data: bytes) -> None:
    """Check that an entry with any fields is refused with a reason, or becomes a message that can be tokenized."""
    # Imported here because atheris instruments only what is imported after it.
    from nbstream.mail.message import Message  # noqa: PLC0415
    from nbstream.mail.mime import MessageLimits  # noqa: PLC0415
    from nbstream.policy.incoming_message import incoming_message  # noqa: PLC0415
    from nbstream.tokens.tokenizer import Tokenizer  # noqa: PLC0415
    from nbstream.wire.stream_entries import UnreadableEntry, read_entry, refusal_fields, with_entry_ids  # noqa: PLC0415

    words = data.split(b"\0")
    fields = dict(zip(words[::2], words[1::2], strict=False))
    try:
        request = read_entry(fields, LIMIT)
    except UnreadableEntry as error:
        answer = with_entry_ids(refusal_fields(str(error)), b"1-1", fields)
        refused = str(error)
    else:
        refused = ""
        assert (request.raw is None) != (request.text is None)
        assert request.label in {None, "ham", "spam"}
        if request.text is not None:
            message = Message.from_text(request.text, MessageLimits())
        else:
            assert request.raw is not None
            message = incoming_message(request.raw, MessageLimits())
        assert len(message.key) == 24
        assert len(Tokenizer().tokenize(message).all) <= 2000
        answer = with_entry_ids({"verdict": "ham"}, b"1-1", fields)
    assert not refused or refused.isprintable()
    assert len(b"".join(_bytes(value) for value in answer.values())) < 2000


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def main() -> None:
    """Run the fuzzer with the arguments of libFuzzer."""
    import atheris  # noqa: PLC0415 - no part of the tests' environment

    with atheris.instrument_imports(include=["nbstream"]):
        check(b"")
    for number, seed in enumerate(SEEDS):  # the names of the fields are hard to guess
        (Path(sys.argv[-1]) / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
