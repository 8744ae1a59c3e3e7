"""A real Postfix with a milter in front of the daemon: its results are read, and forged ones are not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbstream.mail.message import Message
from nbstream.tokens.authentication import FIELD
from tests.deploy.milter import Milters, milters
from tests.deploy.postfix import STRANGER, Postfix, logins, open_folder
from tests.deploy.test_postfix import SETTINGS, Site
from tests.handbook.pages import page
from tests.integration.daemon import DaemonProcess, command, wait_until

REAL_RESULTS = {f"{FIELD}:dkim=pass", f"{FIELD}:dkim=pass:signer.example"}
SPAM = 'nbstream_model_messages{class="spam"}'
FORGED = """\
Authentication-Results: mx.example.org; dkim=pass header.d=bank.example
Authentication-Results : mx.example.org; spf=pass smtp.mailfrom=bank.example
"""


@pytest.fixture(scope="module")
def milter() -> Iterator[Milters]:
    with milters() as listening:
        yield listening


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path, milter: Milters) -> Iterator[Site]:
    program("postfix")
    if os.geteuid() != 0:
        pytest.skip("only root can start Postfix")
    with open_folder() as folder:
        postfix = Postfix(folder, program)
        main = folder / "etc" / "main.cf"
        checks = folder / "etc" / "header_checks"
        (pattern,) = re.findall(r"^ +(/\^Authentication-Results.*)", page("guides/postfix.md"), re.MULTILINE)
        checks.write_text(pattern + "\n")
        added = f"smtpd_milters = inet:127.0.0.1:{milter.port}\nheader_checks = regexp:{checks}\n"
        added += "header_size_limit = 10000\n"  # the default is more than these servers take of a message
        main.write_text(main.read_text() + added)
        os.utime(main, (0, 0))
        settings = folder / "nbstream.yaml"
        text = postfix.own(SETTINGS.read_text()).replace("/var/lib/nbstream", f"{folder}/state")
        text = text.replace("listeners:\n", "listeners:\n  http: {listen: 127.0.0.1:0}\n")
        settings.write_text(text + "trusted_authserv_ids: [MX.example.org]\nown_received_fields: 1\n")
        with logins(folder / "auth"), postfix.running():
            whole = Site(postfix, settings, DaemonProcess(settings).ready())
            yield whole
            whole.daemon.kill()


def taught_tokens(site: Site, message: bytes) -> set[str]:
    """The tokens of results that the model has, after the message in the mailbox was taught."""
    file = site.settings.parent / "delivered.eml"
    file.write_bytes(message)
    command("learn", "spam", str(file), "-c", str(site.settings))
    return results(site)


def results(site: Site) -> set[str]:
    """The tokens of results that the model has."""
    listed = command("top-tokens", "--json", "-k", "1000", "-c", str(site.settings)).stdout
    tokens = [json.loads(line)["token"] for line in listed.splitlines()]
    return {token for token in tokens if token.startswith(FIELD)}


@pytest.mark.parametrize(
    ("position", "order"),
    [(0, ["received", "x-nbstream", FIELD, "received"]), (1, ["received", "x-nbstream", "received", FIELD])],
)
def test_the_results_of_our_own_milter_are_read_and_forged_ones_are_not(
    site: Site, milter: Milters, position: int, order: list[str]
) -> None:
    milter.position = position
    marker = f"m-position-{position}"
    site.send(STRANGER, "ann@example.org", f"{FORGED}Subject: {marker}\nFrom: a@b.example\n\nhello\n")

    message = site.arrived(marker)

    names = [field.name for field in Message.parse(message).fields]
    assert [name for name in names if name in {FIELD, "received", "x-nbstream"}] == order
    assert b"bank.example" not in message
    assert taught_tokens(site, message) == REAL_RESULTS


NAME = b"Authentication-Results"
CLAIM = b"mx.example.org; dkim=pass header.d=bank.example; dmarc=pass header.from=bank.example"
FIELD_OF_SENDER = NAME + b": " + CLAIM + b"\r\n"
RECEIVED = b"Received: from x.example by mx.example.org\r\n"
COMMENTS = b": (a (b) \\) c)mx.example.org(d) 1; (e)dkim(f)=(g)pass header.d=bank.example\r\n"
FORGERIES = {
    "other case": FIELD_OF_SENDER.swapcase(),
    "folded at every space": FIELD_OF_SENDER.replace(b" ", b"\r\n\t"),
    "white space before the colon": NAME + b" \t: " + CLAIM + b"\r\n",
    "comments": NAME + COMMENTS,
    "a hundred": FIELD_OF_SENDER * 100,
    "behind that of another server": NAME + b": mx.other.example; spf=pass\r\n" + FIELD_OF_SENDER,
    "behind a Received field": RECEIVED + FIELD_OF_SENDER,
    "behind a verdict": b"X-Nbstream: ham; id=a\r\n" + FIELD_OF_SENDER + RECEIVED,
    "behind a lone carriage return": b"X-Other: a\r" + FIELD_OF_SENDER,
    "behind two carriage returns": b"X-Other: a\r\r\n" + FIELD_OF_SENDER,
    "behind a lone line feed": b"X-Other: a\n" + FIELD_OF_SENDER,
    "behind a NUL": b"X-Other: a\0\r\n" + FIELD_OF_SENDER,
    "with a NUL in its name": FIELD_OF_SENDER.replace(b"-", b"-\0"),
    "behind a line that is no field": b"no field\r\n" + FIELD_OF_SENDER,
    "behind a continuation": b" folded\r\n" + FIELD_OF_SENDER,
    "behind more than Postfix keeps of a field": b"X-Long: " + b" x\r\n" * 5000 + FIELD_OF_SENDER,
    "behind a long line": b"X-Long: " + b"x" * 5000 + b"\r\n" + FIELD_OF_SENDER,
    "in the header of parts": (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n%s\r\ntext\r\n"
        b"--b\r\nContent-Type: message/rfc822\r\n\r\n%s%s\r\ninner\r\n--b--\r\n"
    )
    % (FIELD_OF_SENDER, FIELD_OF_SENDER, RECEIVED),
}


def test_no_sender_writes_results_in_our_name(site: Site, milter: Milters, tmp_path: Path) -> None:
    """A forged field is read neither by the check nor from the delivered message, above or below other fields."""
    milter.position = 1
    for number, forgery in enumerate(FORGERIES.values()):
        for position in range(2):
            own = f"Subject: m-forged\r\nFrom: a@b.example\r\nMessage-ID: <{number}.{position}@b.example>\r\n"
            header = forgery + own.encode() if position else own.encode() + forgery
            with site.postfix.connect(site.postfix.outside, STRANGER) as client:
                client.ehlo()
                client.mail("a@b.example")
                client.rcpt("ann@example.org")
                code, _ = client.data(header + b"\r\nhello\r\n")  # sendmail() would mend line ends
                assert code == 250
    wait_until(lambda: len(site.postfix.delivered("m-forged")) == 2 * len(FORGERIES))
    messages = site.postfix.delivered("m-forged")
    ids = [found.decode() for message in messages for found in re.findall(rb"; id=(\w+)\n", message)]
    for number, message in enumerate(messages):
        (tmp_path / f"{number}.eml").write_bytes(message)

    before = site.daemon.metric(SPAM)

    for checked_or_delivered in (["--id", *ids], [str(tmp_path)]):
        command("learn", "spam", *checked_or_delivered, "-c", str(site.settings))
        wait_until(lambda: site.daemon.metric(SPAM) == before + len(messages))
        assert results(site) == REAL_RESULTS
        command("unlearn", str(tmp_path), "-c", str(site.settings))
        wait_until(lambda: site.daemon.metric(SPAM) == before)
