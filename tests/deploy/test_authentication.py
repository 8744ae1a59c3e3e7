"""A real Postfix with a milter in front of the daemon: its results are read, and forged ones are not.

The settings are those of the guide for Postfix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbstream.mail.message import Message
from nbstream.tokens.authentication import FIELD, authentication_tokens
from tests.deploy.milter import Milters, milters
from tests.deploy.test_postfix import SETTINGS, Site
from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.harness.handbook_pages import page
from tests.harness.postfix import AFTER_QUEUE, DEPLOY, MILTER, STRANGER, Postfix, logins, open_folder
from tests.harness.programs import needs_root

MILTER_SETTINGS = DEPLOY / "postfix" / "milter" / "nbstream.yaml"
REAL_RESULTS = {f"{FIELD}:dkim=pass", f"{FIELD}:dkim=pass:signer.example"}
SPAM = 'nbstream_model_messages{class="spam"}'
RECEIVED = b"Received: from x.example by mx.example.org\r\n"
FORGED = """\
Authentication-Results: mx.example.org; dkim=pass header.d=bank.example
Authentication-Results : mx.example.org; spf=pass smtp.mailfrom=bank.example
"""


@pytest.fixture(scope="module")
def milter() -> Iterator[Milters]:
    with milters() as listening:
        yield listening


AFTER_THE_QUEUE, AS_A_MILTER = "after the queue", "as a milter"


@pytest.fixture(scope="module", params=[AFTER_THE_QUEUE, AS_A_MILTER])
def site(
    request: pytest.FixtureRequest, program: Callable[[str], str], redis_binary: Path, milter: Milters
) -> Iterator[Site]:
    program("postfix")
    needs_root()
    is_milter = request.param == AS_A_MILTER
    with open_folder() as folder:
        checks = folder / "header_checks"
        (pattern,) = re.findall(r"^ +(/\^Authentication-Results.*)", page("guides/postfix.md"), re.MULTILINE)
        checks.write_text(pattern + "\n")
        main = f"smtpd_milters = inet:127.0.0.1:{milter.port}\nheader_checks = regexp:{checks}\n"
        main += "header_size_limit = 10000\n"  # the default is more than these servers take of a message
        postfix = Postfix(folder, program, MILTER if is_milter else AFTER_QUEUE, main)
        postfix.make_socket_folder()
        settings = folder / "nbstream.yaml"
        text = postfix.own((MILTER_SETTINGS if is_milter else SETTINGS).read_text())
        text = text.replace("/var/lib/nbstream", f"{folder}/state").replace(
            "/var/spool/postfix", f"{folder}/queue"
        )
        settings.write_text(text.replace("listeners:\n", "listeners:\n  http: {listen: 127.0.0.1:0}\n"))
        with settings.open("a") as file:
            file.write(f"trusted_authserv_ids: [mx.example.org]\nown_received_fields: {0 if is_milter else 1}\n")
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
    listed = command("model", "show", "--json", "-k", "1000", "-c", str(site.settings)).stdout
    strongest = json.loads(listed)["strongest"]
    tokens = {token["token"] for tokens in strongest.values() for token in tokens}
    return {token for token in tokens if token.startswith(FIELD)}


@pytest.mark.parametrize("position", [0, 1])
def test_the_results_of_our_own_milter_are_read_and_forged_ones_are_not(
    site: Site, milter: Milters, position: int
) -> None:
    milter.position = position
    marker = f"m-position-{position}"
    header = f"{FORGED}Subject: {marker}\nFrom: a@b.example\n{RECEIVED.decode()}{FORGED}"
    site.send(STRANGER, "ann@example.org", f"{header}\nhello\n")

    message = site.postfix.arrived(marker)

    names = [field.name for field in Message.parse(message).fields]
    assert names[names.index(FIELD) :].count("received") == 2 - position  # that of Postfix, and the sender's
    assert b"bank.example" not in message
    assert taught_tokens(site, message) == REAL_RESULTS


NAME = b"Authentication-Results"
CLAIM = b"mx.example.org; dkim=pass header.d=bank.example; dmarc=pass header.from=bank.example"
FIELD_OF_SENDER = NAME + b": " + CLAIM + b"\r\n"
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
        own = f"Subject: m-forged\r\nFrom: a@b.example\r\nMessage-ID: <{number}@b.example>\r\n"
        header = forgery + own.encode() if number % 2 else own.encode() + forgery
        with site.postfix.connect(site.postfix.outside, STRANGER) as client:
            client.ehlo()
            client.mail("a@b.example")
            client.rcpt("ann@example.org")
            code, _ = client.data(header + b"\r\nhello\r\n")  # sendmail() would mend line ends
            assert code == 250
    wait_until(lambda: len(site.postfix.delivered("m-forged")) == len(FORGERIES))
    messages = site.postfix.delivered("m-forged")
    ids = [found.decode() for message in messages for found in re.findall(rb"; id=(\w+)\n", message)]
    for number, message in enumerate(messages):
        (tmp_path / f"{number}.eml").write_bytes(message)

    before = site.daemon.metric(SPAM)

    for checked_or_delivered in (["--id", *ids], [str(tmp_path)]):
        command("learn", "spam", *checked_or_delivered, "-c", str(site.settings))
        wait_until(lambda: site.daemon.metric(SPAM) == before + len(messages))
        assert results(site) == REAL_RESULTS
        command("unlearn", *checked_or_delivered, "-c", str(site.settings))
        wait_until(lambda: site.daemon.metric(SPAM) == before)


def test_a_sender_reaches_the_place_below_the_field_that_postfix_writes_and_none_above_it(
    program: Callable[[str], str],
) -> None:
    """Without header checks, and without a result of a milter."""
    program("postfix")
    needs_root()
    with open_folder() as folder:
        postfix = Postfix(folder, program, steps=())
        with postfix.running():
            for number, forgery in enumerate(FORGERIES.values()):
                with postfix.connect(postfix.outside, STRANGER) as client:
                    client.ehlo()
                    client.mail("a@b.example")
                    client.rcpt("ann@example.org")
                    client.data(forgery + b"Message-ID: <%d@b.example>\r\n%s\r\nm-forged\r\n" % (number, RECEIVED))
            wait_until(lambda: len(postfix.delivered("m-forged")) == len(FORGERIES))
        headers = [Message.parse(message).fields for message in postfix.delivered("m-forged")]

    assert [authentication_tokens(fields, {"mx.example.org"}, 0) for fields in headers] == [[]] * len(FORGERIES)
    assert any(authentication_tokens(fields, {"mx.example.org"}, 1) for fields in headers)
