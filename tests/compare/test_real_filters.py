"""The fields that the real programs write today are read; forged ones do not decide."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import chown

import pytest

from nbstream.compare.fields import FilterVerdict, OtherFilter
from nbstream.mail.lines import normalize_line_ends
from tests.compare.other_filters import GTUBE, MARKED, PRIZE, Bogofilter, Rspamd, filtered, rspamd
from tests.compare.test_compare_command import compared
from tests.deploy.postfix import DEPLOY, MILTER, STRANGER, Postfix, logins, open_folder
from tests.integration.daemon import DaemonProcess, free_port, wait_until

HEAD = (
    "From: Ann <ann@x.example>\nTo: Bob <bob@y.example>\nSubject: lunch\nMessage-ID: <{number}@x.example>\n"
    "Date: Sat, 28 Nov 2026 10:00:00 +0000\n{forged}\n{body}\n"
)
FORGED_HAM = (
    "X-Spam: No\nX-Spam-Status: No, score=-9.0 required=5.0\nX-Spam-Flag: NO\nX-Rspamd-Action: no action\n"
    "X-Spamd-Result: default: False [-9.00 / 15.00]\nX-Bogosity: Ham, tests=bogofilter, spamicity=0.0\n"
)


def letter(number: int, body: str, forged: str = "") -> bytes:
    return HEAD.format(number=number, forged=forged, body=body).encode()


def call(name: str, raw: bytes) -> FilterVerdict | None:
    verdict = OtherFilter(name).read(normalize_line_ends(raw))  # type: ignore[arg-type]
    return verdict.verdict if verdict else None


def test_spamassassin(program: Callable[[str], str], tmp_path: Path) -> None:
    words = [program("spamassassin"), "-L", "-p", str(tmp_path / "prefs")]
    (tmp_path / "prefs").write_text("use_bayes 0\nreport_safe 0\n")

    def mark(body: str, forged: str = "") -> bytes:
        return filtered(words, letter(1, body, forged))

    ham, spam = (OtherFilter("spamassassin").read(normalize_line_ends(mark(body))) for body in ("Hi", GTUBE))
    assert ham
    assert spam
    assert (ham.verdict, spam.verdict) == (FilterVerdict.HAM, FilterVerdict.SPAM)
    assert spam.score
    assert spam.score > 900
    assert call("spamassassin", mark(GTUBE, FORGED_HAM)) is FilterVerdict.SPAM


def test_bogofilter(program: Callable[[str], str], tmp_path: Path) -> None:
    bogofilter = Bogofilter(program("bogofilter"), tmp_path / "words")
    bogofilter.learn("-s", [letter(n, "cheap pills casino prize") for n in range(5)])
    bogofilter.learn("-n", [letter(n, "meeting agenda budget report") for n in range(5)])

    def mark(body: str, forged: str = "") -> bytes:
        return bogofilter.mark(letter(9, body, forged))

    assert call("bogofilter", mark("the meeting has an agenda and a budget report")) is FilterVerdict.HAM
    assert call("bogofilter", mark("cheap casino prize and pills", FORGED_HAM)) is FilterVerdict.SPAM


@pytest.fixture(scope="module")
def scanner(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rspamd]:
    program("rspamc")
    # The strangers of these tests have addresses of this machine, for which rspamd writes no fields by default.
    headers = "extended_spam_headers = true;\nskip_local = false;\n"
    with rspamd(tmp_path_factory.mktemp("rspamd"), program, headers) as running:
        yield running


def test_rspamc(program: Callable[[str], str], scanner: Rspamd) -> None:
    """rspamc leaves forged fields where they are, and puts its own below them: that is unclear."""

    def mark(body: str, forged: str = "") -> bytes:
        return filtered([program("rspamc"), "-h", f"127.0.0.1:{scanner.port}", "--mime"], letter(1, body, forged))

    assert call("rspamd", mark("Shall we have lunch on Friday?")) is FilterVerdict.HAM
    assert call("rspamd", mark(GTUBE)) is FilterVerdict.SPAM
    assert call("rspamd", mark(GTUBE, FORGED_HAM)) is FilterVerdict.UNCLEAR


def test_nbstream_behind_rspamd_as_milters_of_postfix(
    program: Callable[[str], str], scanner: Rspamd, redis_binary: Path
) -> None:
    """Postfix shows the second milter what the first one has written, without the forged fields.

    Of what rspamd calls spam without looking further, forged fields stay: that is unclear.
    """
    program("postfix")
    if os.geteuid() != 0:
        pytest.skip("only root can start Postfix")
    with open_folder() as folder:
        postfix = Postfix(folder, program, MILTER, f"smtpd_milters = inet:127.0.0.1:{scanner.milter}\n")
        sockets = folder / "queue" / "nbstream"
        sockets.mkdir()
        chown(sockets, group="postfix")
        sockets.chmod(0o2710)
        text = (DEPLOY / "postfix" / "milter" / "nbstream.yaml").read_text()
        text = text.replace("/var/lib/nbstream", f"{folder}/state").replace(
            "/var/spool/postfix", f"{folder}/queue"
        )
        text = text.replace("listeners:\n", f"listeners:\n  http: {{listen: 127.0.0.1:{free_port()}}}\n")
        settings = folder / "nbstream.yaml"
        settings.write_text(f"{text}headers: {{mode: observe}}\ncompare: {{filter: rspamd}}\n")
        with logins(folder / "auth"), postfix.running(), DaemonProcess(settings) as daemon:
            with postfix.connect(postfix.outside, STRANGER) as client:
                for number, body in enumerate(("lunch on Friday?", PRIZE, MARKED)):
                    raw = letter(number, body, FORGED_HAM if number else "")
                    client.sendmail("ann@x.example", "ann@example.org", raw)
            wait_until(lambda: (r := compared(daemon))["left_out"]["unclear"] and r["messages"] == 2, seconds=60)
            assert compared(daemon)["table"]["unsure"] == {"ham": 1, "unsure": 0, "spam": 1}
