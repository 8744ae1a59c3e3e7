"""The answers of the spamd protocol, byte for byte, as the clients of each version read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.spamd.codec import SpamdCommand, SpamdRequest, render_check
from nbstream.policy.verdict import Verdict

JUDGEMENT = (Verdict.SPAM, 15.04, 5.0)
OK = "SPAMD/1.1 0 EX_OK\r\n"
SPAM = "Spam: True ; 15.0 / 5.0\r\n"


def answer(command: str, version: int, content: str = "") -> str:
    return render_check(SpamdRequest(SpamdCommand(command), version), *JUDGEMENT, content.encode()).decode()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_from_version_1_3_on_the_answer_has_length_and_verdict(version: int) -> None:
    for command in ("REPORT", "REPORT_IFSPAM", "SYMBOLS", "PROCESS", "HEADERS"):
        assert answer(command, version, "text\n") == f"{OK}Content-length: 5\r\n{SPAM}\r\ntext\n"
    assert answer("REPORT_IFSPAM", version) == f"{OK}Content-length: 0\r\n{SPAM}\r\n"
    assert answer("CHECK", version) == f"{OK}{SPAM}\r\n"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_version_1_3_the_answer_has_a_verdict_or_a_message(version: int) -> None:
    for command in ("REPORT", "REPORT_IFSPAM", "CHECK"):
        assert answer(command, version, "text\n") == f"{OK}{SPAM}\r\ntext\n"
    assert answer("SYMBOLS", version, "NBSTREAM_SPAM") == f"{OK}{SPAM}\r\nNBSTREAM_SPAM\r\n"
    length = "Content-length: 5\r\n" if version == 2 else ""
    assert answer("PROCESS", version, "text\n") == f"{OK}{length}\r\ntext\n"


@pytest.mark.parametrize("verdict", Verdict)
def test_a_client_that_asks_gets_the_verdict_by_its_name(verdict: Verdict) -> None:
    spam = "True" if verdict.is_spam else "False"
    for version, more in ((5, f"Verdict: {verdict}\r\n"), (2, "")):
        request = SpamdRequest(SpamdCommand.CHECK, version, wants_verdict=True)
        expected = f"{OK}Spam: {spam} ; 0.0 / 1.0\r\n{more}\r\n"
        assert render_check(request, verdict, 0.0, 1.0).decode() == expected


@given(st.sampled_from(SpamdCommand), st.integers(3, 5), st.binary(max_size=100))
def test_the_length_is_that_of_what_follows(command: SpamdCommand, version: int, content: bytes) -> None:
    head, _, body = render_check(SpamdRequest(command, version), *JUDGEMENT, content).partition(b"\r\n\r\n")

    assert body == content
    assert (f"Content-length: {len(body)}" in head.decode().split("\r\n")) is (command is not SpamdCommand.CHECK)
