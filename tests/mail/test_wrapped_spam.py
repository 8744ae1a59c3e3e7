"""The original message in a report of SpamAssassin."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.mail.forwards import original_of
from tests.deploy.old_filters import GTUBE
from tests.integration.daemon import command

HEAD = "Subject: Prize\nFrom: win@offers.example\nMessage-ID: <1@offers.example>\n"
SPAM = f"{HEAD}\nClaim it now.\n{GTUBE}\n".encode()
TYPE = b'Content-Type: multipart/mixed; boundary="----------=_6B0A6F6E.52946FA8"\n'
REPORT = b"X-Spam-Checker-Version: SpamAssassin 4.0.1\n" + TYPE + b"\n"
PART = b"\n------------=_6B0A6F6E.52946FA8\nContent-Type: message/rfc822; x-spam-type=original\n\n"
END = b"\n------------=_6B0A6F6E.52946FA8--\n"

Wrap = Callable[[bytes, int], bytes]


@pytest.fixture
def wrap(program: Callable[[str], str], tmp_path: Path) -> Wrap:
    """What the real program makes of spam with a value of ``report_safe``."""

    def run(raw: bytes, report_safe: int) -> bytes:
        words = [program("spamassassin"), "--local", "--cf=use_bayes 0", f"--cf=report_safe {report_safe}"]
        environment = {"HOME": str(tmp_path)}
        return subprocess.run(
            words, input=raw, capture_output=True, env=environment, check=True, timeout=60
        ).stdout

    return run


@pytest.mark.parametrize("report_safe", [1, 2])
@pytest.mark.parametrize("raw", [SPAM, SPAM + b"\n\n", SPAM + b"\n------------=_6B0A6F6E.52946FA8--\nmore\n"])
def test_a_report_is_taken_off_byte_for_byte(wrap: Wrap, raw: bytes, report_safe: int) -> None:
    report = wrap(raw, report_safe)

    assert b"Content preview" in report
    assert original_of(report) == raw
    assert original_of(report.replace(b"\n", b"\r\n")) == raw.replace(b"\n", b"\r\n")  # from an IMAP server


def test_spam_that_was_only_marked_stays_as_it_is(wrap: Wrap) -> None:
    marked = wrap(SPAM, 0)

    assert b"X-Spam-Flag: YES" in marked
    assert original_of(marked) == marked


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        SPAM,
        TYPE + PART + SPAM + END,  # not of SpamAssassin
        b"Subject: forwarded\n\n" + REPORT + PART + SPAM + END,
        REPORT + PART + SPAM,  # cut off
        REPORT + END + PART + SPAM,
        REPORT + PART * 2000,
    ],
)
def test_any_other_message_stays_as_it_is(raw: bytes) -> None:
    assert original_of(raw) == raw


def test_what_lies_in_junk_is_learned_as_it_came(wrap: Wrap, tmp_path: Path, redis_binary: Path) -> None:
    config = tmp_path / "nbstream.yaml"
    config.write_text(f"state_dir: {tmp_path / 'state'}\n")
    for name, raw in (("wrapped", wrap(SPAM, 1)), ("plain", SPAM)):
        (tmp_path / name).write_bytes(raw)

    assert "1 learned as spam" in command("learn", "-c", config, "spam", tmp_path / "wrapped").stdout
    assert "1 already" in command("learn", "-c", config, "spam", tmp_path / "plain").stdout
