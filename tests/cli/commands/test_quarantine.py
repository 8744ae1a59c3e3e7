"""``nbstream quarantine list`` and ``show``: what they print, and that a message moves no terminal's cursor."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path as File

import pytest

from nbstream.cli.main import main
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote

A, B = "a" * 24, "ab" + "c" * 22
NASTY = "\x1b[31m\u202e\x9b\x07"
CONTENT = (
    b"From: =?utf-8?q?Ann=1B[31m?= <ann@a.example>\r\nSubject: =?utf-8?q?=1B[2J=E2=80=AEorder?=\r\n"
    b"X-Other: kept out\r\n"
    b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    b"--x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\none\x1b]0;title\x07\r\n\ttwo\r\n"
    b"--x\r\nContent-Type: text/html\r\n\r\n<script>no</script><b>three</b> &#27;[31m\r\n"
    b"--x\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nfour\r\n--x--\r\n"
)


@pytest.fixture
def config(tmp_path: File) -> File:
    file = tmp_path / "nb.yaml"
    file.write_text(f"state_dir: {tmp_path}\n")
    return file


def put(config: File, message_id: str = A, content: bytes = CONTENT) -> None:
    envelope = Envelope(SmtpPath(f"s{NASTY}@x"), (SmtpPath(f"r{NASTY}@x"), SmtpPath("other@x")))
    waiting = Quarantine(config.parent / "Quarantine")
    note = QuarantineNote(message_id, "spam", 0.98, "*@x", envelope)
    assert asyncio.run(waiting.write([(note, b"", content)])) is None


def run(config: File, *words: str) -> int:
    return main(["quarantine", *words, "-c", str(config)])


def harmless(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


def test_json_says_all_of_it(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    put(config)

    run(config, "list", "--json")

    out = capsys.readouterr().out
    result = json.loads(out)
    assert out.isascii()
    assert result["recipients"] == [f"r{NASTY}@x", "other@x"]
    assert (result["id"], result["policy"], result["in_doubt"]) == (A, "*@x", False)


def test_a_message_is_shown_as_text_and_nothing_but_that(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    put(config)

    assert run(config, "show", "aa") == 0

    out = capsys.readouterr().out
    assert harmless(out)
    head, fields, text = out.split("\n\n", 2)
    assert head.endswith("sender     s?[31m???@x\nrecipient  r?[31m???@x\nrecipient  other@x")
    assert fields == "From: Ann?[31m <ann@a.example>\nSubject: ?[2J?order"
    assert text.split() == ["one?]0;title?", "two", "three", "[31m"]


@pytest.mark.parametrize(
    ("prefix", "why"), [("b", "no such message"), ("a", "2 messages have an id that begins so, aaaa")]
)
def test_an_id_must_say_which(config: File, capsys: pytest.CaptureFixture[str], prefix: str, why: str) -> None:
    put(config, A)
    put(config, B)

    assert run(config, "show", prefix) == 66

    assert why in capsys.readouterr().err


def test_a_damaged_file_hinders_no_other(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    put(config, A)
    (file,) = (config.parent / "Quarantine" / "new").iterdir()
    file.write_bytes(b"Subject: x\n\nsomebody wrote this\n")
    put(config, B)

    assert run(config, "list") == 66

    out, err = capsys.readouterr()
    assert B in out
    assert "was not written by nbstream" in err
