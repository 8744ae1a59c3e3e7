"""Broken mail passes: never refused, never altered beyond its line ends."""

from __future__ import annotations

import smtplib
from collections.abc import Iterable
from pathlib import Path

from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.header import FilterMarks
from tests.harness.daemon import DaemonProcess
from tests.harness.mutation import mutations
from tests.harness.samples import samples

MARKS = FilterMarks()

RICH = b"""\
From: =?utf-8?q?caf=C3=A9?= <a@example.org>
Subject: =?utf-8?b?SGVsbG8=?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<html><a href=3D"http://example.org/x?y">click</a><p style=3D"display:none">hidden</p>
--b
Content-Type: message/rfc822

Subject: inner

body
--b
Content-Type: application/pdf; name="a.pdf"
Content-Transfer-Encoding: base64

JVBERi0xLjQK
--b--
"""


def expected(raw: bytes) -> bytes:
    """Return what has to arrive, up to the final line end: without forged verdicts, with LF in the file."""
    return header_fields.strip_fields(normalize_line_ends(raw), MARKS.names).replace(b"\r\n", b"\n").rstrip(b"\n")


def arrived(file: Path) -> bytes:
    """A delivered file without the fields that were put on top."""
    envelope = b"Return-Path: <from@example.org>\nX-Envelope-To: to@example.org\n"
    content = file.read_bytes()
    assert content.startswith(envelope)
    raw = normalize_line_ends(content.removeprefix(envelope))
    own = [name for name in MARKS.names if name != MARKS.guard_field]
    raw = header_fields.strip_fields(raw, own).removeprefix(MARKS.guard_field.encode() + b":\r\n")
    return raw.replace(b"\r\n", b"\n").rstrip(b"\n")


def pass_all(daemon: DaemonProcess, maildir: Path, messages: Iterable[bytes]) -> int:
    """Send all messages, compare what arrived, and return their number."""
    host, _, port = daemon.address("smtp").partition(":")
    count = 0
    with smtplib.SMTP(host, int(port), timeout=60) as client:
        client.ehlo("client")
        for raw in messages:
            count += 1
            client.mail("from@example.org")
            client.rcpt("to@example.org")
            code, text = client.data(normalize_line_ends(raw))
            loop = expected(raw).count(b"Received:") > 50 and code == 554
            assert code == 250 or loop, (code, text, raw)
            files = list((maildir / "new").iterdir())
            if not loop:
                assert len(files) == 1
                assert arrived(files[0]) == expected(raw)
            for file in files:
                file.unlink()
    return count


def write_config(folder: Path) -> Path:
    path = folder / "nb.yaml"
    path.write_text(
        f"state_dir: {folder / 'state'}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\n"
        "model: {min_learned: 0}\nlog: {format: json}\n"
    )
    return path


def test_mutated_messages_pass(tmp_path: Path, redis_binary: Path) -> None:  # the daemon starts it
    originals = [RICH, *(raw for _, raw in samples(20))]
    with DaemonProcess(write_config(tmp_path)) as daemon:
        assert pass_all(daemon, tmp_path / "state/Maildir", mutations(originals, 400)) == 400
        assert daemon.metric('nbstream_filter_failures_total{reason="error"}') == 0
