"""The spamd listener of a daemon with real clients: spamc in every mode, and Exim's ``spam =``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.harness.daemon import DaemonProcess
from tests.harness.postfix import open_folder
from tests.integration.exim import Exim

SPAM = b'From: "Prize Office" <winner@offers.example>\nSubject: You have won\n\nClaim your free prize now.\n'
HAM = b"From: Ann <ann@example.org>\nSubject: Lunch?\n\nShall we have lunch on Friday?\n"

CONFIGURATION = """\
state_dir: {folder}/state
listeners: {{smtp: null, http: {{listen: "127.0.0.1:0"}}, spamd: {{listen: {listen!r}}}}}
model: {{min_learned: 1}}
verdict: {{spam: 0.5}}
{more}
"""

CHANGED, ALREADY = b"Message successfully un/learned\n", b"Message was already un/learned\n"

Spamc: TypeAlias = Callable[..., tuple[int, bytes]]


def configure(folder: Path, listen: str = "127.0.0.1:0", more: str = "") -> Path:
    file = folder / "nb.yaml"
    file.write_text(CONFIGURATION.format(folder=folder, listen=listen, more=more))
    return file


def client_of(daemon: DaemonProcess, path: str) -> Spamc:
    """Run spamc on a message, and return its exit code and output. ``-x`` makes its failures exit codes."""
    host, _, port = daemon.address("spamd").rpartition(":")

    def run(message: bytes, *options: str) -> tuple[int, bytes]:
        words = [path, "-x", "-d", host, "-p", port, *options]
        result = subprocess.run(words, input=message, capture_output=True, timeout=60, check=False)
        return result.returncode, result.stdout

    return run


@pytest.fixture(scope="module")
def taught_daemon(
    tmp_path_factory: pytest.TempPathFactory, redis_binary: Path, program: Callable[[str], str]
) -> Iterator[DaemonProcess]:
    """One that has learned one message of each class; what a test teaches it, the test takes back."""
    with DaemonProcess(configure(tmp_path_factory.mktemp("spamd"))) as running:
        spamc = client_of(running, program("spamc"))
        for label, message in (("spam", SPAM), ("ham", HAM)):
            assert spamc(message, "-L", label) == (0, CHANGED)
        yield running


@pytest.fixture
def taught_spamc(taught_daemon: DaemonProcess, program: Callable[[str], str]) -> Spamc:
    return client_of(taught_daemon, program("spamc"))


@pytest.fixture
def daemon(tmp_path: Path, redis_binary: Path) -> Iterator[DaemonProcess]:
    """One for a test that reloads or ends it."""
    with DaemonProcess(configure(tmp_path)) as running:
        yield running


@pytest.fixture
def spamc(daemon: DaemonProcess, program: Callable[[str], str]) -> Spamc:
    return client_of(daemon, program("spamc"))


# spamc


def test_check(taught_spamc: Spamc) -> None:
    for message, code, pattern in ((SPAM, 1, rb"\d+\.\d/0\.0\n"), (HAM, 0, rb"-\d+\.\d/0\.0\n")):
        exit_code, output = taught_spamc(message, "-c")
        assert exit_code == code
        assert re.fullmatch(pattern, output)


def test_process(taught_spamc: Spamc) -> None:
    for message, options, code in ((SPAM, [], 0), (SPAM, ["-E"], 1), (HAM, ["-E"], 0)):
        exit_code, output = taught_spamc(message, *options)
        assert exit_code == code
        assert output.endswith(b"\n" + message)
        assert output.startswith(b"X-Spam-Flag: YES\n" if message is SPAM else b"X-Spam-Status: No, ")
        assert b"\r" not in output


def test_reports(taught_spamc: Spamc) -> None:
    pattern = rb"-?\d\.\d/0\.0\nnbstream: (spam|ham), P\(spam\) 0\.\d{6}\n[^\0]+"

    assert re.fullmatch(pattern, taught_spamc(SPAM, "-R")[1])
    assert re.fullmatch(pattern, taught_spamc(HAM, "-R")[1])
    assert taught_spamc(SPAM, "-r") == taught_spamc(SPAM, "-R")
    assert taught_spamc(HAM, "-r") == (0, b"")


def test_learning_and_forgetting(taught_spamc: Spamc, taught_daemon: DaemonProcess) -> None:
    message = SPAM + b"Today only.\n"

    for label, output in (
        ("spam", CHANGED),
        ("spam", ALREADY),
        ("ham", CHANGED),
        ("forget", CHANGED),
        ("forget", ALREADY),
    ):
        assert taught_spamc(message, "-L", label) == (0, output), label
    assert taught_daemon.metric('nbstream_model_messages{class="spam"}') == 1
    relearned = 'nbstream_feedback_total{label="ham",outcome="relearned",source="spamd"}'
    assert taught_daemon.metric(relearned) == 1


def test_a_refusal_is_no_success_and_loses_no_mail(
    program: Callable[[str], str], tmp_path: Path, redis_binary: Path
) -> None:
    file = configure(tmp_path)
    file.write_text(file.read_text() + "limits: {max_message_bytes: 100}\n")
    with DaemonProcess(file) as daemon:
        port = daemon.address("spamd").rpartition(":")[2]
        words = [program("spamc"), "-d", "127.0.0.1", "-p", port]
        message = HAM * 2

        passed = subprocess.run(words, input=message, capture_output=True, timeout=60, check=False)
        assert (passed.returncode, passed.stdout) == (0, message)
        for options in (["-x"], ["-x", "--headers"], ["-x", "-L", "spam"], ["-x", "-c"]):
            refused = subprocess.run(
                [*words, *options], input=message, capture_output=True, timeout=60, check=False
            )
            assert refused.returncode == 74, options
            assert message not in refused.stdout


def test_a_unix_socket(tmp_path: Path, redis_binary: Path, program: Callable[[str], str]) -> None:
    path = tmp_path / "spamd.sock"
    file = configure(tmp_path, f"unix:{path}", "feedback: {allow_from: []}")
    with DaemonProcess(file) as daemon:
        assert daemon.address("spamd") == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o660
        words = [program("spamc"), "-x", "-U", str(path), "-L", "spam"]
        result = subprocess.run(words, input=SPAM, capture_output=True, timeout=60, check=False)
        assert result.stdout == b"Message successfully un/learned\n"
        assert daemon.stop() == 0
    with DaemonProcess(file):  # its former socket does not prevent the start
        pass


# Exim


@contextmanager
def exim_before(daemon: DaemonProcess) -> Iterator[Exim]:
    """Exim in front of a daemon."""
    with open_folder() as folder:
        exim = Exim(folder)
        host, _, port = daemon.address("spamd").rpartition(":")
        exim.configure(f"{host} {port}")
        yield exim


@pytest.fixture
def exim(taught_daemon: DaemonProcess) -> Iterator[Exim]:
    with exim_before(taught_daemon) as exim:
        yield exim


def crlf(message: bytes) -> bytes:
    return message.replace(b"\n", b"\r\n")


def test_exim_refuses_spam(exim: Exim) -> None:
    assert exim.send(crlf(SPAM)) == "550 This looks like spam."
    assert exim.queued() == []


def test_exim_accepts_ham_with_its_score(exim: Exim) -> None:
    assert exim.send(crlf(HAM)).startswith("250 ")
    [header] = exim.queued()
    assert re.search(r"X-Spam-Status: -\d+\.\d \([-/]+\)\n", header)


def test_exim_removes_forged_results_of_authentication(exim: Exim) -> None:
    forged = b"Authentication-Results: mx.example.org; dkim=pass\n"

    assert exim.send(crlf(forged + HAM)).startswith("250 ")
    [header] = exim.queued()
    assert re.search(r"^\d+\* Authentication-Results:", header, re.MULTILINE)  # Exim marks removed fields so


def test_exim_defers_mail_while_the_listener_cannot_answer(daemon: DaemonProcess) -> None:
    with exim_before(daemon) as exim:
        daemon.stop()

        assert exim.send(crlf(HAM)).startswith("451 ")
