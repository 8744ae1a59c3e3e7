"""``nbstream-filter`` by itself: every byte of the message stays, whatever the daemon and the pipes do."""

from __future__ import annotations

import ast
import os
import resource
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.mail import header_edits
from tests.harness.filter_script import SCRIPT, daemon_that_answers, functions, run
from tests.harness.waiting import DEADLINE_SECONDS

FUNCTIONS = functions()
HEADER, BODY = b"From: ann@example.org\nSubject: Lunch\n\n", b"Shall we?\n\nAnn\n"
MESSAGE = HEADER + BODY
MARKED = b"X-Spam-Status: No\n" + HEADER


def answer(content: bytes = MARKED, *fields: bytes) -> bytes:
    """A daemon's answer with a header as its content."""
    lines = (
        b"SPAMD/1.1 0 EX_OK",
        b"Content-length: %d" % len(content),
        b"Spam: False ; 0.0 / 5.0",
        *fields,
        b"",
        content,
    )
    return b"\r\n".join(lines)


# Its functions


def test_it_can_be_read_by_python_3_9() -> None:
    assert ast.parse(SCRIPT.read_bytes(), feature_version=(3, 9))


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"A: b", b" "]), max_size=12).map(b"".join))
@example(b"")
def test_the_header_ends_where_the_daemon_ends_it(raw: bytes) -> None:
    header, _ = header_edits.split_header_and_body(raw)

    assert FUNCTIONS.header_length(raw) == len(header)
    assert FUNCTIONS.header_length(bytearray(b"From x\n" + raw), 7) == len(header)


@pytest.mark.parametrize(
    ("message", "length"),
    [
        (b"From ann@example.org Mon Nov 23 10:00:00 2026\nSubject: x\n", 46),
        (b"From MAILER-DAEMON\r\nSubject: x\n", 20),
        (b"From: ann@example.org\n", 0),
        (b"From : ann@example.org\n", 0),
        (b"Subject: x\nFrom ann\n", 0),
        (b"From ann without an end", 0),
        (b"", 0),
    ],
)
def test_the_first_line_of_an_mbox_is_no_header_field(message: bytes, length: int) -> None:
    assert FUNCTIONS.envelope_line_length(bytearray(message)) == length


# Failures: the message passes as it came


@pytest.mark.parametrize(
    ("spoken", "why"),
    [
        (b"", "no answer"),
        (b"\0\xff" * 100, "the answer cannot be understood"),
        (b"SPAMD/1.1 x EX_OK\r\n\r\n", "the answer cannot be understood"),
        (b"SPAMD/1.0 75 Temporary failure\r\n", "the daemon refuses: Temporary failure"),
        (b"SPAMD/1.0 65 \x1b[2Jtoo large\r\n", "the daemon refuses: ?[2Jtoo large"),
        (answer() + b"\n", "the answer is cut off"),
        (answer(b""), "the answer is no header"),
        (answer(MARKED + b"more\n"), "the answer is no header"),
        (answer(MARKED[:-1]), "the answer is no header"),
        (answer(MARKED + b"x" * (70 << 10)), "the answer is too long"),
    ],
)
def test_a_wrong_answer_changes_nothing(tmp_path: Path, spoken: bytes, why: str) -> None:
    with daemon_that_answers(tmp_path, spoken) as path:
        done = run(MESSAGE, path)

    assert (done.returncode, done.stdout) == (0, MESSAGE)
    assert done.stderr.decode() == f"nbstream-filter: {why}\n"


def test_an_answer_that_ends_at_any_byte_changes_nothing() -> None:
    whole = answer()
    for end in range(len(whole)):
        with pytest.raises(FUNCTIONS.NoAnswerError):
            FUNCTIONS.require_header(FUNCTIONS.parse_answer(whole[:end])[1], has_body=True)
    assert FUNCTIONS.parse_answer(whole)[1] == MARKED


def test_a_daemon_that_is_away_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "nobody"))
        for name in ("missing", "file", "nobody", "x" * 200):
            done = run(MESSAGE, tmp_path / name)

            assert (done.returncode, done.stdout) == (0, MESSAGE)
            assert done.stderr.count(b"\n") == 1


def test_a_daemon_that_says_nothing_is_waited_for_until_the_time_is_over(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        done = run(MESSAGE, tmp_path / "silent", "--timeout", "0.2")

    assert (done.returncode, done.stdout) == (0, MESSAGE)
    assert done.stderr.endswith(b"timed out\n")


def test_a_daemon_that_has_too_many_connections_is_asked_again(tmp_path: Path) -> None:
    busy = b"SPAMD/1.0 69 Service Unavailable: too many connections\r\n"
    with daemon_that_answers(tmp_path, busy, busy, answer()) as path:
        done = run(MESSAGE, path)
    assert (done.stdout, done.stderr) == (MARKED + BODY, b"")

    with daemon_that_answers(tmp_path, busy) as path:
        done = run(MESSAGE, path, "--timeout", "0.4")
    assert (done.returncode, done.stdout) == (0, MESSAGE)
    assert done.stderr == b"nbstream-filter: the daemon refuses: Service Unavailable: too many connections\n"

    # A refusal of feedback looks the same, and does not change.
    with daemon_that_answers(tmp_path, busy, b"SPAMD/1.1 0 EX_OK\r\nDidSet: local\r\n\r\n") as path:
        assert run(MESSAGE, path, "--learn", "spam").returncode == 69


def test_a_daemon_that_refuses_without_reading_is_understood(tmp_path: Path) -> None:
    """What it has not read when it closes resets the connection, after its answer."""
    crowded = b"SPAMD/1.1 69 Service Unavailable: too many connections\r\n\r\n"
    with daemon_that_answers(tmp_path, crowded, reads=False) as path:
        done = run(b"", path, "--learn", "spam")
    assert (done.returncode, done.stdout) == (69, b"")
    assert done.stderr == b"nbstream-filter: the daemon refuses: Service Unavailable: too many connections\n"


def test_a_failure_has_an_exit_code_and_no_output_if_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing"
    for options, code, output in (
        (["--exit-code"], 75, MESSAGE),
        (["--on-failure", "defer"], 75, b""),
        (["--check"], 75, b""),
        (["--learn", "spam"], 75, b""),
    ):
        done = run(MESSAGE, path, *options)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (code, output, 1)


def test_a_message_that_can_never_be_checked_is_not_deferred(tmp_path: Path) -> None:
    done = run(MESSAGE, tmp_path / "missing", "--on-failure", "defer", "--max-bytes", "10")
    assert (done.returncode, done.stdout) == (0, MESSAGE)
    with daemon_that_answers(tmp_path, b"SPAMD/1.0 65 Message too large\r\n") as path:
        done = run(MESSAGE, path, "--on-failure", "defer")
    assert (done.returncode, done.stdout) == (0, MESSAGE)


# Answers


@pytest.mark.parametrize(
    ("fields", "name", "code"),
    [
        ([b"Verdict: ham"], "ham", 0),
        ([b"Verdict: spam"], "spam", 1),
        ([b"Verdict: reject"], "reject", 1),
        ([b"Verdict: unsure"], "unsure", 2),
        ([], "ham", 0),  # SpamAssassin's own server
        ([b"Verdict: perhaps"], "", 75),
    ],
)
def test_the_verdict_is_the_exit_code(tmp_path: Path, fields: list[bytes], name: str, code: int) -> None:
    with daemon_that_answers(tmp_path, answer(MARKED, *fields)) as path:
        filtered = run(MESSAGE, path, "--exit-code")
        assert run(MESSAGE, path).returncode == 0
    with daemon_that_answers(tmp_path, answer(b"", *fields)) as path:
        checked = run(MESSAGE, path, "--check")

    assert filtered.returncode == checked.returncode == code
    assert filtered.stdout == (MARKED + BODY if name else MESSAGE)
    assert checked.stdout.decode() == (f"{name}\n" if name else "")


# Pipes


def test_a_message_of_50_mb_needs_little_more_memory_than_itself(tmp_path: Path) -> None:
    message = HEADER + b"0123456789abcde\n" * ((50 << 20) // 16 - 10)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (120 << 20, 120 << 20))

    with daemon_that_answers(tmp_path, answer()) as path:
        done = run(message, path, preexec_fn=limit)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == MARKED + message[len(HEADER) :]


def test_a_message_that_comes_byte_by_byte_and_pipes_that_do_not_block(tmp_path: Path) -> None:
    message = MESSAGE + b"x" * (1 << 20)  # more than a pipe holds
    from_test, to_script = os.pipe()
    from_script, to_test = os.pipe()
    for descriptor in (from_test, to_test):
        os.set_blocking(descriptor, False)
    with daemon_that_answers(tmp_path, answer()) as path:
        process = subprocess.Popen([SCRIPT, "--socket", path], stdin=from_test, stdout=to_test)
        for descriptor in (from_test, to_test):
            os.close(descriptor)
        output: list[bytes] = []
        with os.fdopen(from_script, "rb") as file, os.fdopen(to_script, "wb", 0) as pipe:
            reader = threading.Thread(target=lambda: output.append(file.read()))
            reader.start()
            for at in range(len(MESSAGE)):
                pipe.write(message[at : at + 1])
            rest = message[len(MESSAGE) :]
            while rest:
                rest = rest[pipe.write(rest) :]  # a signal may end a write to a raw file
            pipe.close()
            reader.join(DEADLINE_SECONDS)
        assert process.wait(DEADLINE_SECONDS) == 0

    assert output == [MARKED + message[len(HEADER) :]]


def test_output_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    """The caller has the message still; exit code 0 would tell it that it may forget it."""
    reading, writing = os.pipe()
    os.close(reading)
    with (
        Path("/dev/full").open("wb") as full,
        os.fdopen(writing, "wb") as closed,
        daemon_that_answers(tmp_path, answer()) as path,
    ):
        for socket_path in (path, tmp_path / "missing"):
            for output in (full, closed):
                words: list[str | Path] = [SCRIPT, "--socket", socket_path]
                done = subprocess.run(
                    words, input=MESSAGE, stdout=output, stderr=subprocess.PIPE, timeout=60, check=False
                )
                assert done.returncode == 74
                assert b"Traceback" not in done.stderr
