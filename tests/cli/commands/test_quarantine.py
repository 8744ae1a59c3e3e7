"""``nbstream quarantine list`` and ``show``: what they print, and that a message moves no terminal's cursor."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path as File

import pytest

from nbstream.cli.main import main
from nbstream.delivery import maildir
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
    file.write_text(f"quarantine: {{path: {tmp_path / 'q'}}}\n")
    return file


def put(config: File, message_id: str = A, content: bytes = CONTENT) -> None:
    envelope = Envelope(SmtpPath(f"s{NASTY}@x"), (SmtpPath(f"r{NASTY}@x"), SmtpPath("other@x")))
    waiting = Quarantine(config.parent / "q")
    draft = waiting.make_draft(QuarantineNote(message_id, "spam", 0.98, "*@x", envelope), b"", content)
    assert asyncio.run(maildir.write_drafts([draft])) is None


def run(config: File, *words: str) -> int:
    return main(["quarantine", *words, "-c", str(config)])


def harmless(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


def test_an_empty_quarantine_has_nothing_to_list(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, "list") == 0
    assert capsys.readouterr() == ("", "")


def test_a_line_says_what_a_message_is(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    put(config)

    assert run(config, "list") == 0

    out = capsys.readouterr().out
    assert out.partition("  ")[2] == f"{A}  spam 0.9800  s?[31m???@x -> r?[31m???@x and 1 more  ?[2J?order\n"
    assert harmless(out)


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


def test_a_long_message_is_shown_in_part(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    put(config, content=b"Subject: x\r\n\r\n" + b"word word\r\n" * 10_000)

    run(config, "show", A)

    out = capsys.readouterr().out
    assert len(out) < 25_000
    assert out.endswith("... (the rest is not shown)\n")


@pytest.mark.parametrize(
    ("prefix", "why"), [("b", "no such message"), ("a", "2 messages have an id that begins so, aaaa")]
)
def test_an_id_must_say_which(config: File, capsys: pytest.CaptureFixture[str], prefix: str, why: str) -> None:
    put(config, A)
    put(config, B)

    assert run(config, "show", prefix) == 66

    assert why in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["", "A", "a1", "../x", "a" * 25])
def test_what_begins_no_id_is_wrong_usage(config: File, wrong: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(config, "show", wrong)
    assert ended.value.code == 64


def test_a_damaged_file_hinders_no_other(config: File, capsys: pytest.CaptureFixture[str]) -> None:
    put(config, A)
    (file,) = (config.parent / "q" / "new").iterdir()
    file.write_bytes(b"Subject: x\n\nsomebody wrote this\n")
    put(config, B)

    assert run(config, "list") == 66

    out, err = capsys.readouterr()
    assert B in out
    assert "was not written by nbstream" in err
